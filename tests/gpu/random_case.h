// SPDX-License-Identifier: Apache-2.0
// A random problem for a given kernel, with plan and data: sizes around the kernel's tiles and ring, padded
// strides, batches, few or many clusters. Equal (config, seed) give equal cases.
#pragma once

#include <sluice/check/verify.h>
#include <sluice/plan.h>

namespace sluice::testing {

struct Case {
  Plan plan;
  DataSpec data;
};

struct CaseLimits {
  int largest = 600;  // bound of m and n; k goes up to twice as much
  bool real = false;  // real data instead of exact integers
};

Case random_case(const KernelConfig& config, const DeviceInfo& device, u64 seed, const CaseLimits& limits);

/// The plan of `problem` on exactly this kernel. `clusters` 0: as many as fit and are useful.
Plan plan_for(const Problem& problem, const KernelConfig& config, const DeviceInfo& device, int clusters = 0);
/// A problem of these sizes that the kernel accepts, with rows as tight as TMA allows; of strided operands,
/// as far apart as it does not allow. n is rounded up to one that TMA can store if the kernel stores with it.
Problem problem_for(const KernelConfig& config, i64 m, i64 n, i64 k);

}  // namespace sluice::testing
