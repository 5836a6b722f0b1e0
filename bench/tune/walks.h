// SPDX-License-Identifier: Apache-2.0
// What the tuner tries of its leaders beside the candidates: the same tile and cluster in another walk. Pure;
// each plan is one that the planner makes of overrides, so that a record can name it. Called by tune.cc.
#pragma once

#include <vector>

#include <sluice/plan.h>

namespace sluice::bench {

/// The plan with its clusters numbered the other way and the walk that goes with that, and, unless one wave
/// takes all tiles, its other orders of walking them: raster groups 1 to 16 along m and along n, but for
/// those that are the same walk. None of plain schedules.
std::vector<Plan> other_orders(const Plan& plan, const DeviceInfo& device);

/// Where whole tiles go out in several waves: the plan with fewer clusters. As few as need no wave more, so
/// that all waves are alike, and as many of those as make whole bands of the walk. One, two or none.
std::vector<Plan> smaller_grids(const Plan& plan, const DeviceInfo& device);

}  // namespace sluice::bench
