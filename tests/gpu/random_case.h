// SPDX-License-Identifier: Apache-2.0
// A random problem for a given kernel, with plan and data. Sizes are close to the kernel's tiles and ring;
// strides are padded; there are batches, and few or many clusters. Equal (config, seed) give equal cases.
#pragma once

#include <sluice/check/verify.h>
#include <sluice/plan.h>

namespace sluice::testing {

struct RandomCase {
  Plan plan;
  DataSpec data;
};

struct CaseLimits {
  int largest = 600;  // upper limit of m and n; k may be twice as large
  bool real = false;  // real-valued data instead of whole numbers
};

RandomCase random_case(const KernelConfig& config, const DeviceInfo& device, u64 seed,
                       const CaseLimits& limits);

/// Returns the plan that computes `problem` with exactly this kernel. `clusters`: 0 means as many as fit and
/// have work.
Plan plan_for(const Problem& problem, const KernelConfig& config, const DeviceInfo& device, int clusters = 0);
/// Returns a problem of these sizes that the kernel accepts. Rows have the smallest pitch that TMA allows;
/// for strided operands, a pitch that TMA does not allow. If the kernel stores by TMA, n is rounded up to a
/// multiple that TMA can store.
Problem problem_for(const KernelConfig& config, i64 m, i64 n, i64 k);

}  // namespace sluice::testing
