// SPDX-License-Identifier: Apache-2.0
// If several SMs of a GPC request the same lines at nearly the same time, L2 answers them together; multicast
// loads of a cluster gain nothing from that (docs/findings/gpc.md). So the gain is in the operand that each
// cluster loads for itself: clusters that load the same part of it should be in one GPC.
#include <sluice/plan/dense/numbering.h>

#include <algorithm>

#include <sluice/plan/constants.h>
#include <sluice/plan/dense/cluster_grid.h>

namespace sluice {
namespace {

bool multicasts_one_operand(const ClusterShape& c) {
  return c.k == 1 && (c.m == 1) != (c.n == 1) && c.m * c.n <= 4;
}
bool is_pair_along_k(const ClusterShape& c) {
  return c.k == 2 && c.m * c.n == 1;
}

bool gains_by_gpc(const Plan& plan) {
  const ClusterShape& cluster = plan.config.cluster;
  const WorkSplit& split = plan.split;
  if (split.clusters > kMostNumbered || plan.estimate.tensor_us == 0) return false;
  if (split.slices > 1) return multicasts_one_operand(cluster) && split.slices >= kPlanner.search.gpc_parts;
  return (multicasts_one_operand(cluster) || is_pair_along_k(cluster)) &&
         plan.estimate.tensor_us >=
             static_cast<double>(kPlanner.search.gpc_tensor_share) * plan.estimate.hbm_us;
}

}  // namespace

std::string numbering_problem(const WorkSplit& split) {
  if (split.numbering == Numbering::launch || split.clusters <= kMostNumbered) return {};
  return std::to_string(split.clusters) + " clusters must be at most " + std::to_string(kMostNumbered) +
         " to be numbered by GPC: give fewer, or split.numbering = launch";
}

WorkSplit numbered(const Plan& plan, const PlanOverrides& o) {
  if (!gains_by_gpc(plan)) return plan.split;
  WorkSplit split = numbered_by_gpc(plan);
  if (o.raster || o.raster_group) split.raster = plan.split.raster, split.group = plan.split.group;
  return split;
}

WorkSplit numbered_by_gpc(const Plan& plan) {
  WorkSplit split = plan.split;
  split.numbering = Numbering::gpc;
  const ClusterShape& cluster = plan.config.cluster;
  if (!multicasts_one_operand(cluster)) return split;
  // The raster runs along the operand that is multicast, so that the clusters of a GPC share the other
  // operand.
  const bool along_n = cluster.m > 1;
  const Problem product = product_of(plan.problem, plan.config);
  const i64 extent = along_n ? grid_columns(product, plan.config) : grid_rows(product, plan.config);
  split.raster = along_n ? Raster::along_n : Raster::along_m;
  split.group =
      static_cast<int>(std::clamp<i64>(extent, 1, kPlanner.search.gpc_sms / cluster_size(plan.config)));
  return split;
}

}  // namespace sluice
