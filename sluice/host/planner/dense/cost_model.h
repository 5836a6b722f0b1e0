// SPDX-License-Identifier: Apache-2.0
// How long a configuration will take, from what is known about the machine: waves, tensor time, shared
// memory, L2 and HBM bytes, and what is not hidden behind them. Pure arithmetic; the numbers are Costs
// (costs.h). Called by candidates.cc.
// The model is there to rank configurations of one problem, not to predict a time to the percent.
#pragma once

#include <sluice/host/planner/costs.h>
#include <sluice/plan.h>

namespace sluice {

/// Clusters that can be resident at once.
int max_clusters(const KernelConfig& config, const DeviceInfo& device);

/// `problem` has its strides filled in and is not empty; the config is valid.
Estimate estimate(const Problem& problem, const KernelConfig& config, const WorkSplit& split,
                  const DeviceInfo& device, const Costs& costs = kCosts);

}  // namespace sluice
