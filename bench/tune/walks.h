// SPDX-License-Identifier: Apache-2.0
// Other rasters of the tuner's leaders, with the same tile and cluster. Pure; each plan comes from overrides
// of the planner, so that a record can name it. Called by tune.cc.
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
