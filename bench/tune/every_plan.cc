// SPDX-License-Identifier: Apache-2.0
// Plans are requested from the planner with overrides, so that its rules decide which are possible.
#include "bench/tune/every_plan.h"

#include <algorithm>
#include <optional>

#include <sluice/kernels/registry.h>
#include <sluice/plan/dense/candidates.h>
#include <sluice/try.h>

namespace sluice::bench {
namespace {

constexpr int kSplits[] = {2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128};
constexpr Combine kWays[] = {Combine::last_arriver, Combine::separate, Combine::add};

bool is_base_of(const PlanOverrides& base, const KernelConfig& c) {
  return base.schedule == c.schedule && base.tile_m == c.tile.m && base.tile_n == c.tile.n;
}

/// Returns each combination of tile and schedule in `plans` once: with the caller's cluster, or else with
/// every cluster. Without overrides the planner skips some clusters.
std::vector<PlanOverrides> bases_of(const std::vector<Plan>& plans, std::optional<ClusterShape> asked) {
  std::vector<ClusterShape> clusters(std::begin(kClusterSpace), std::end(kClusterSpace));
  if (asked) clusters = {*asked};
  std::vector<PlanOverrides> bases;
  for (const Plan& plan : plans) {
    const KernelConfig& c = plan.config;
    if (is_plain(c.schedule) || is_swapped(c))
      continue;  // plain kernels have no split-K; the tile of a swapped config is a tile of D transposed
    const bool known = std::any_of(bases.begin(), bases.end(),
                                   [&](const PlanOverrides& base) { return is_base_of(base, c); });
    if (known) continue;
    for (const ClusterShape& cluster : clusters)
      bases.push_back({.schedule = c.schedule, .tile_m = c.tile.m, .tile_n = c.tile.n, .cluster = cluster});
  }
  return bases;
}

}  // namespace

Result<std::vector<Plan>> every_plan(const Request& request, const DeviceInfo& device) {
  const Problem& problem = request.problem;
  SLUICE_TAKE(std::vector<Plan> plans, gemm::candidates(problem, device, request.overrides));
  const auto add = [&](const PlanOverrides& asked) {
    const Result<std::vector<Plan>> more = gemm::candidates(problem, device, asked);
    if (!more) return;  // no plan: a rule forbids this combination
    for (const Plan& plan : *more)
      if (std::none_of(plans.begin(), plans.end(), [&](const Plan& other) { return is_same(plan, other); }))
        plans.push_back(plan);
  };
  for (PlanOverrides asked : bases_of(plans, request.overrides.cluster)) {
    asked.combine = Combine::none;
    add(asked);
    for (const Combine way : kWays)
      for (const int splits : kSplits) {
        asked.combine = way;
        asked.splits = splits;
        add(asked);
      }
  }
  return std::vector<Plan>(std::make_move_iterator(plans.begin()), std::make_move_iterator(plans.end()));
}

}  // namespace sluice::bench
