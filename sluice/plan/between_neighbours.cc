// SPDX-License-Identifier: Apache-2.0
#include <sluice/plan/between_neighbours.h>

#include <algorithm>
#include <cmath>

#include <sluice/plan/costs.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/packed/packed_cost_model.h>

namespace sluice {
namespace {

double at_once(int cluster, const DeviceInfo& device) {
  return std::max(1.0, static_cast<double>(clusters_at_once(cluster, device)) * cluster);
}

double fill_of(const Problem& p, const NarrowConfig& c, const DeviceInfo& device) {
  const double tiles = static_cast<double>(ceil_div(p.n, i64{tile_rows(c)})) *
                       static_cast<double>(ceil_div(p.m, i64{tile_tokens(c)}));
  return grid_fill(tiles * c.parts, packed::room_for(c), at_once(c.parts, device));
}
double fill_of(const Problem& p, const StripConfig& c, const DeviceInfo& device) {
  const double tiles = static_cast<double>(ceil_div(d_columns(p), i64{tile_columns(c)})) *
                       static_cast<double>(ceil_div(p.m, i64{c.tokens}));
  return grid_fill(tiles * c.parts, packed::room_for(c), at_once(c.parts, device));
}
/// Returns 1: wide clusters are persistent, and the estimate already counts their waves.
double fill_of(const Problem&, const WideConfig&, const DeviceInfo&) {
  return 1;
}

}  // namespace

double grid_fill(double ctas, double room, double at_once) {
  const double share = std::ceil(ctas / at_once);
  if (share <= room) return ctas / std::max(1.0, share * at_once);
  return ctas / (std::ceil(ctas / (room * at_once)) * room * at_once);
}

double us_between_neighbours(const Plan& plan, const DeviceInfo& device) {
  const double fill =
      visit_decoder(plan.config, [&](const auto& c) { return fill_of(plan.problem, c, device); });
  return plan.estimate.total_us * (1 + kCosts.uneven_cost * (1 - fill));
}

}  // namespace sluice
