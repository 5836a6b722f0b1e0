// SPDX-License-Identifier: Apache-2.0
// A random problem for a given kernel, with the plan to run it and the data: sizes around the edges of that
// kernel's own tiles and ring, padded strides, batches, few or many clusters. The same (config, seed) is the
// same case.
#pragma once

#include <sluice/check/verify.h>
#include <sluice/plan.h>

namespace sluice::testing {

struct Case {
  Plan plan;
  DataSpec data;
};

struct CaseLimits {
  int largest = 600;  // m and n; k goes to twice as much
  bool real = false;  // real-valued data in place of exact integers
};

Case random_case(const KernelConfig& config, const DeviceInfo& device, u64 seed, const CaseLimits& limits);

/// The plan of `problem` on exactly this kernel. `clusters` 0: as many as fit or are of use.
Plan plan_for(const Problem& problem, const KernelConfig& config, const DeviceInfo& device, int clusters = 0);
/// A problem of these sizes that the kernel takes, rows packed as tightly as TMA allows; n goes up to the
/// next one that TMA can store, if the kernel stores with it.
Problem problem_for(const KernelConfig& config, i64 m, i64 n, i64 k);

}  // namespace sluice::testing
