// SPDX-License-Identifier: Apache-2.0
// Implements streams.h. Slices that start anywhere in a tile (stream-K) are tried only if asked for. On an
// H200 they were slower than whole tiles on every large product: neighbouring clusters are no longer at the
// same k, so they do not share L2 hits (docs/decisions/0005-no-stream-k-unasked.md).
#include <sluice/host/planner/dense/streams.h>

#include <algorithm>

#include <sluice/host/limits.h>
#include <sluice/host/planner/constants.h>
#include <sluice/host/planner/dense/cluster_grid.h>
#include <sluice/host/planner/dense/cost_model.h>

namespace sluice {
namespace {

i64 tiles_of(const Problem& p, const KernelConfig& c) {
  return grid_rows(p, c) * grid_columns(p, c) * p.batch;
}
i64 k_tiles_of(const Problem& p, const KernelConfig& c) {
  return ceil_div(p.k, i64{c.tile.k});
}

/// Collects the valid splits of one configuration.
class Splits {
 public:
  Splits(const Problem& p, const KernelConfig& c, const WorkSplit& whole, const PlanOverrides& o)
      : p_(p), c_(c), whole_(whole), limit_(o.workspace_limit.value_or(kWorkspaceLimit)) {}

  void add(i64 streamed, i64 clusters) {
    if (streamed < 1 || streamed > kMaxInt || clusters < 1 || clusters > kMaxInt) return;
    WorkSplit split = whole_;
    split.streamed = static_cast<int>(streamed);
    split.clusters = static_cast<int>(clusters);
    const bool known = std::find(found_.begin(), found_.end(), split) != found_.end();
    if (!known && validate(c_) == nullptr && stream_problem(p_, c_, split).empty() &&
        workspace_bytes(c_, split) <= limit_)
      found_.push_back(split);
  }
  std::vector<WorkSplit> found() && { return std::move(found_); }

 private:
  const Problem& p_;
  const KernelConfig& c_;
  const WorkSplit& whole_;
  i64 limit_;
  std::vector<WorkSplit> found_;
};

}  // namespace

std::vector<Combine> combines_of_parts(const Problem& p) {
  if (adds_in_any_order(p)) return {Combine::add};
  if (p.conv.op == ConvOp::dgrad && p.batch > 1) return {Combine::none};  // the phases of dx differ in k
  if (p.epilogue.gated) return {Combine::last_arriver};  // the only one that spec/validate.h allows
  return {Combine::last_arriver, Combine::separate};
}

bool may_win(const Problem& p, const KernelConfig& c, bool in_parts) {
  if (!is_conv(p.conv)) return true;
  if (c.cluster.k > 1) return !in_parts && p.conv.op == ConvOp::wgrad && c.cluster.k <= 4;
  if (!in_parts || c.combine == Combine::add) return true;
  const bool one_tile = p.m <= c.tile.m && p.n <= c.tile.n;  // a pair of CTAs would have no operand to share
  return c.combine == Combine::separate && (multicasts(c) || one_tile);
}

std::string stream_problem(const Problem& p, const KernelConfig& c, const WorkSplit& split) {
  if (split.streamed == 0) return {};
  const std::string name = "split.streamed = " + std::to_string(split.streamed);
  const i64 tiles = tiles_of(p, c), k_tiles = k_tiles_of(p, c);
  if (c.combine == Combine::none)
    return name + " needs a config with Combine::last_arriver, Combine::separate or Combine::add";
  if (split.streamed < 0 || split.streamed > tiles)
    return name + " must be in 0.." + std::to_string(tiles) + ", the cluster tiles there are";
  if (split.streamed > kMaxInt / std::max<i64>(k_tiles, 1))
    return name + " tiles of " + std::to_string(k_tiles) + " k-tiles must stay below 2^31 k-tiles";
  if (split.clusters > split.streamed * k_tiles)
    return std::to_string(split.clusters) + " clusters must not be more than the " +
           std::to_string(split.streamed * k_tiles) + " k-tiles that are dealt out to them";
  if (split.clusters > kMaxInt / cluster_size(c))
    return std::to_string(split.clusters) + " clusters of " + std::to_string(cluster_size(c)) +
           " must be less than 2^31 CTAs";
  // Every kernel numbers workspace slots, also one that adds its slices to D and has none (sharing_of).
  if (slot_count(split) > kMaxInt / (uses_workspace(c) ? cluster_size(c) * combined_parts(c) : 1))
    return std::to_string(split.clusters) + " clusters and " + name + " need " +
           std::to_string(slot_count(split)) + " slots, more than the kernel can count";
  if (!uses_workspace(c)) return {};
  if (const i64 counters = counter_count(c, split); counters > kWorkspaceCounters)
    return name + " needs " + std::to_string(counters) + " counters and a workspace has " +
           std::to_string(kWorkspaceCounters);
  return {};
}

i64 clusters_to_stream(const Problem& p, const KernelConfig& c, const DeviceInfo& device,
                       const PlanOverrides& o) {
  if (o.clusters) return *o.clusters;
  const i64 dealt = std::min<i64>(o.streamed.value_or(0), tiles_of(p, c)) * k_tiles_of(p, c);
  return std::clamp<i64>(dealt, 1, std::max(max_clusters(c, device), 1));
}

std::vector<WorkSplit> stream_splits(const Problem& p, const KernelConfig& c, const DeviceInfo& device,
                                     const WorkSplit& whole, const PlanOverrides& o) {
  const i64 tiles = tiles_of(p, c), k_tiles = k_tiles_of(p, c);
  const i64 fit = o.clusters.value_or(max_clusters(c, device));
  Splits splits(p, c, whole, o);
  if (tiles == 0 || k_tiles == 0) return {};
  if (o.streamed || o.splits) {
    if (o.splits && *o.splits > 1) splits.add(tiles, tiles * *o.splits);
    if (o.streamed) splits.add(*o.streamed, clusters_to_stream(p, c, device, o));
    return std::move(splits).found();
  }
  if (!o.cluster && !o.combine && !may_win(p, c, true)) return {};
  for (const i64 parts : tried::kSplits) {
    const bool cuts_alike =
        k_tiles % parts == 0 || tiles == 1;  // otherwise slices reach from one tile into the next
    if (cuts_alike && tiles * parts <= fit && k_tiles / parts >= kPlanner.search.run_k_tiles)
      splits.add(tiles, tiles * parts);
  }
  // Also tries as many slices as fill the GPU, although some then reach into the next tile and write one slot
  // more. Only a last arriver would have to wait for that slot.
  if (const i64 most = fit / tiles;
      c.combine == Combine::separate && most > 1 && k_tiles / most >= kPlanner.search.run_k_tiles)
    splits.add(tiles, tiles * most);
  return std::move(splits).found();
}

}  // namespace sluice
