// SPDX-License-Identifier: Apache-2.0
// Other rasters for the tuner's fastest plans, with the same tile and cluster. Needs no GPU. Each plan is
// made with overrides of the planner, so that a record can describe it. Called by tune.cc.
#pragma once

#include <vector>

#include <sluice/plan.h>

namespace sluice::bench {

/// The plan with the other cluster numbering and its raster. Unless one wave takes all tiles, also other
/// rasters: groups of 1 to 16 along m and n, without duplicates. Plain schedules have none.
std::vector<Plan> other_orders(const Plan& plan, const DeviceInfo& device);

/// The plan with fewer clusters, where whole tiles need several waves; up to two. One has as few as keep the
/// number of waves, so that all waves are alike. The other has the most of those that make whole bands.
std::vector<Plan> smaller_grids(const Plan& plan, const DeviceInfo& device);

}  // namespace sluice::bench
