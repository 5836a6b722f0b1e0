// SPDX-License-Identifier: Apache-2.0
#include <sluice/plan/dense/slices.h>

#include <algorithm>

#include <sluice/plan/constants.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/dense/cost_model.h>
#include <sluice/plan/limits.h>

namespace sluice {
namespace {

i64 tiles_of(const Problem& p, const KernelConfig& c) {
  return grid_rows(p, c) * grid_columns(p, c) * p.batch;
}
i64 k_tiles_of(const Problem& p, const KernelConfig& c) {
  return ceil_div(p.k, i64{c.tile.k});
}

}  // namespace

std::vector<Combine> combines_of_parts(const Problem& p) {
  if (adds_in_any_order(p)) return {Combine::add};
  if (p.conv.op == ConvOp::dgrad && p.batch > 1) return {Combine::none};  // the phases of dx differ in k
  if (writes_scales(p.epilogue)) return {Combine::none};  // the only ones that spec/validate.h allows
  if (p.epilogue.gated || p.epilogue.row_factors) return {Combine::last_arriver};
  return {Combine::last_arriver, Combine::separate};
}

bool may_win(const Problem& p, const KernelConfig& c, bool in_parts) {
  if (!is_conv(p.conv)) return true;
  if (c.cluster.k > 1) return !in_parts && p.conv.op == ConvOp::wgrad && c.cluster.k <= 4;
  if (!in_parts || c.combine == Combine::add) return true;
  const bool one_tile = p.m <= c.tile.m && p.n <= c.tile.n;  // a pair of CTAs would have no operand to share
  return c.combine == Combine::separate && (multicasts(c) || one_tile);
}

std::string slices_problem(const Problem& p, const KernelConfig& c, const WorkSplit& split) {
  if (split.slices == 1) return {};
  const std::string name = "split.slices = " + std::to_string(split.slices);
  const i64 tiles = tiles_of(p, c), k_tiles = k_tiles_of(p, c);
  if (c.combine == Combine::none)
    return name + " needs a config with Combine::last_arriver, Combine::separate or Combine::add";
  if (split.slices < 1 || split.slices > k_tiles)
    return name + " must be in 1.." + std::to_string(std::max(k_tiles, i64{1})) + ", the k-tiles of a tile";
  if (split.slices > kMaxInt / std::max<i64>(tiles, 1) || split.clusters != tiles * split.slices)
    return name + " of " + std::to_string(tiles) +
           " tiles needs a cluster per slice, below 2^31: " + std::to_string(split.clusters) + " clusters";
  if (split.clusters > kMaxInt / cluster_size(c))
    return std::to_string(split.clusters) + " clusters of " + std::to_string(cluster_size(c)) +
           " must be less than 2^31 CTAs";
  if (!uses_workspace(c)) return {};
  if (split.clusters > kMaxInt / (cluster_size(c) * combined_parts(c)))
    return std::to_string(split.clusters) + " clusters need more slots than the kernel can count";
  if (const i64 counters = counter_count(c, split); counters > kWorkspaceCounters)
    return name + " needs " + std::to_string(counters) + " counters and a workspace has " +
           std::to_string(kWorkspaceCounters);
  return {};
}

WorkSplit split_into(const Problem& p, const KernelConfig& c, WorkSplit whole, i64 slices) {
  whole.slices = static_cast<int>(std::min(slices, kMaxInt));
  whole.clusters = static_cast<int>(std::min(tiles_of(p, c) * slices, kMaxInt));
  return whole;
}

std::vector<WorkSplit> splits_along_k(const Problem& p, const KernelConfig& c, const DeviceInfo& device,
                                      const WorkSplit& whole, const PlanOverrides& o) {
  const i64 tiles = tiles_of(p, c), k_tiles = k_tiles_of(p, c);
  if (tiles == 0 || k_tiles == 0) return {};
  std::vector<WorkSplit> found;
  const i64 limit = o.workspace_limit.value_or(kWorkspaceLimit);
  const auto add = [&](i64 slices) {
    const WorkSplit split = split_into(p, c, whole, slices);
    const bool known = std::find(found.begin(), found.end(), split) != found.end();
    if (slices > 1 && !known && validate(c) == nullptr && slices_problem(p, c, split).empty() &&
        workspace_bytes(c, split) <= limit)
      found.push_back(split);
  };
  if (o.splits) {
    add(*o.splits);
    return found;
  }
  if (!o.cluster && !o.combine && !may_win(p, c, true)) return {};
  const i64 fit = o.clusters.value_or(max_clusters(c, device));
  for (const i64 slices : tried::kSplits)
    if ((k_tiles % slices == 0 || tiles == 1) && tiles * slices <= fit &&
        k_tiles / slices >= kPlanner.search.run_k_tiles)
      add(slices);
  // Also as many slices as fill the GPU, although their lengths may differ by a k-tile.
  if (const i64 most = fit / tiles;
      c.combine == Combine::separate && most > 1 && k_tiles / most >= kPlanner.search.run_k_tiles)
    add(most);
  return found;
}

}  // namespace sluice
