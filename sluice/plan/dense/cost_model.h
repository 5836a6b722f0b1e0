// SPDX-License-Identifier: Apache-2.0
// Estimates the time of a configuration from waves, tensor core time, shared memory, L2 and HBM bytes, and
// the overhead that overlaps with none of them. Pure arithmetic; the constants are Costs (costs.h). Its
// purpose is to rank the configurations of one problem, not to predict a time to the percent. Called by
// candidates.cc.
#pragma once

#include <sluice/plan.h>
#include <sluice/plan/costs.h>

namespace sluice {

/// Returns how many clusters of this config can be resident at once.
int max_clusters(const KernelConfig& config, const DeviceInfo& device);

/// Returns the estimated times. `problem` has its strides filled in and is not empty; `config` is valid.
Estimate estimate(const Problem& problem, const KernelConfig& config, const WorkSplit& split,
                  const DeviceInfo& device, const Costs& costs = kCosts);

}  // namespace sluice
