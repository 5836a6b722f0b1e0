// SPDX-License-Identifier: Apache-2.0
// Each plan is a copy with another split. Only a numbering can break a rule, and such a copy is left out.
#include "bench/tune/walks.h"

#include <algorithm>
#include <set>
#include <utility>

#include <sluice/plan/dense/candidates.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/dense/cost_model.h>
#include <sluice/plan/dense/numbering.h>

namespace sluice::bench {
namespace {

constexpr int kGroups[] = {1, 2, 4, 8, 16};

/// The plan with another split, and the estimate of that.
Plan with_split(Plan plan, const WorkSplit& split, const DeviceInfo& device) {
  plan.split = split;
  plan.estimate =
      sluice::estimate(expected(product_of(plan.problem, plan.config)), plan.config, split, device);
  plan.source = PlanSource::model;
  plan.measured_us = 0;
  plan.product_alone = false;
  return plan;
}

/// The plan's split with the other numbering of clusters, in the raster that suits it.
WorkSplit numbered_otherwise(const Plan& plan, const DeviceInfo& device) {
  if (plan.split.numbering == Numbering::launch) return numbered_by_gpc(plan);
  PlanOverrides same;
  if (plan.split.slices == 1) same.clusters = plan.split.clusters;
  const WorkSplit best = choose_split(product_of(plan.problem, plan.config), plan.config, device, same);
  WorkSplit split = plan.split;
  split.numbering = Numbering::launch;
  split.raster = best.raster;
  split.group = best.group;
  return split;
}

}  // namespace

std::vector<Plan> other_orders(const Plan& plan, const DeviceInfo& device) {
  std::vector<Plan> orders;
  if (is_plain(plan.config.schedule)) return orders;
  const KernelConfig& c = plan.config;
  const WorkSplit otherwise = numbered_otherwise(plan, device);
  if (numbering_problem(otherwise).empty()) orders.push_back(with_split(plan, otherwise, device));
  const Problem product = expected(product_of(plan.problem, c));
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
      WorkSplit split = plan.split;
      split.raster = raster;
      split.group = group;
      orders.push_back(with_split(plan, split, device));
    }
  return orders;
}

std::vector<Plan> smaller_grids(const Plan& plan, const DeviceInfo& device) {
  std::vector<Plan> grids;
  if (is_plain(plan.config.schedule) || plan.split.slices > 1) return grids;
  const Problem product = expected(product_of(plan.problem, plan.config));
  const i64 tiles = static_cast<i64>(grid_tiles(product, plan.config));  // a plan has fewer than 2^31 tiles
  const i64 clusters = plan.split.clusters;
  if (tiles <= clusters) return grids;
  const i64 even = ceil_div(tiles, ceil_div(tiles, clusters));
  const i64 whole_bands = ceil_div(even, i64{plan.split.group}) * plan.split.group;
  for (const i64 smaller : std::set<i64>{even, whole_bands}) {
    if (smaller >= clusters) continue;
    WorkSplit split = plan.split;
    split.clusters = static_cast<int>(smaller);
    grids.push_back(with_split(plan, split, device));
  }
  return grids;
}

}  // namespace sluice::bench
