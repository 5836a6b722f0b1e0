// SPDX-License-Identifier: Apache-2.0
// Other rasters for the tuner's fastest plans, with the same tile and cluster. Needs no GPU. Plans differ
// only in fields of their splits that a record holds. Called by tune.cc.
#pragma once

#include <vector>

#include <sluice/plan.h>

namespace sluice::bench {

/// Returns variants of the plan that take tiles in another order. One has the other cluster numbering. Unless
/// all tiles fit into one wave, the others have other rasters: groups of 1 to 16 along m and n, without
/// duplicates. Plain schedules have no variants.
std::vector<Plan> other_orders(const Plan& plan, const DeviceInfo& device);

/// Returns up to two variants with fewer clusters, if the plan needs several waves of whole tiles. The first
/// has the fewest clusters with the same number of waves, so that all waves are equally full. The second has
/// that number rounded up to whole bands.
std::vector<Plan> smaller_grids(const Plan& plan, const DeviceInfo& device);

}  // namespace sluice::bench
