// SPDX-License-Identifier: Apache-2.0
// The planner checks all variants; those that it refuses are left out.
#include "bench/tune/walks.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include <sluice/tools.h>

namespace sluice::bench {
namespace {

constexpr int kGroups[] = {1, 2, 4, 8, 16};

std::optional<Plan> first_of(const Problem& problem, const DeviceInfo& device,
                             const PlanOverrides& overrides) {
  Result<std::vector<Plan>> made = gemm::candidates(problem, device, overrides);
  if (!made) return std::nullopt;
  return std::move(made->front());
}

/// Overrides that fix the plan's kernel, grid and split. Cluster numbering and raster stay open.
PlanOverrides of_same_kernel(const Plan& plan) {
  const KernelConfig& c = plan.config;
  return {.schedule = c.schedule,
          .tile_m = c.tile.m,
          .tile_n = c.tile.n,
          .stages = c.stages,
          .cluster = c.cluster,
          .store = c.store,
          .swapped = is_swapped(c),
          .clusters = plan.split.clusters,
          .streamed = plan.split.streamed,
          .combine = c.combine};
}

}  // namespace

std::vector<Plan> other_orders(const Plan& plan, const DeviceInfo& device) {
  std::vector<Plan> orders;
  if (is_plain(plan.config.schedule)) return orders;
  const KernelConfig& c = plan.config;
  const PlanOverrides same = of_same_kernel(plan);
  const auto add = [&](const PlanOverrides& overrides) {
    if (std::optional<Plan> made = first_of(plan.problem, device, overrides))
      orders.push_back(*std::move(made));
  };
  PlanOverrides other = same;
  other.numbering = plan.split.numbering == Numbering::gpc ? Numbering::launch : Numbering::gpc;
  add(other);
  const Problem product = product_of(plan.problem, c);
  const i64 rows = grid_rows(product, c), columns = grid_columns(product, c);
  // With one row or column of tiles, all rasters visit the tiles in the same order.
  if (std::min(rows, columns) <= 1) return orders;
  // Identifies equal rasters. A group as wide as the whole extent visits tiles in the same order as the other
  // raster with group 1.
  const auto walk = [&](Raster raster, int group) {
    const i64 extent = raster == Raster::along_m ? rows : columns;
    if (group < extent || group == 1) return std::pair(raster, i64{group});
    return std::pair(raster == Raster::along_m ? Raster::along_n : Raster::along_m, i64{1});
  };
  std::set<std::pair<Raster, i64>> seen{walk(plan.split.raster, plan.split.group)};
  for (const Raster raster : {Raster::along_m, Raster::along_n})
    for (const int group : kGroups) {
      if (!seen.insert(walk(raster, group)).second) continue;
      other = same;
      other.numbering = plan.split.numbering;
      other.raster = raster;
      other.raster_group = group;
      add(other);
    }
  return orders;
}

std::vector<Plan> smaller_grids(const Plan& plan, const DeviceInfo& device) {
  std::vector<Plan> grids;
  if (is_plain(plan.config.schedule) || plan.split.streamed > 0) return grids;
  const Problem product = product_of(plan.problem, plan.config);
  const i64 tiles = static_cast<i64>(grid_tiles(product, plan.config));  // a plan has fewer than 2^31 tiles
  const i64 clusters = plan.split.clusters;
  if (tiles <= clusters) return grids;
  const i64 even = ceil_div(tiles, ceil_div(tiles, clusters));
  const i64 whole_bands = ceil_div(even, i64{plan.split.group}) * plan.split.group;
  for (const i64 smaller : std::set<i64>{even, whole_bands}) {
    if (smaller >= clusters) continue;
    PlanOverrides other = of_same_kernel(plan);
    other.raster = plan.split.raster;
    other.raster_group = plan.split.group;
    other.numbering = plan.split.numbering;
    other.clusters = static_cast<int>(smaller);
    if (std::optional<Plan> made = first_of(plan.problem, device, other)) grids.push_back(*std::move(made));
  }
  return grids;
}

}  // namespace sluice::bench
