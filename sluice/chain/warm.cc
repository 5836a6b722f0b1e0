// SPDX-License-Identifier: Apache-2.0
// What each step brings into L2: a share of weights, the same of every run of their rows. A product takes as
// long as its slowest CTA, so the head of B, all of it for some CTAs and none for the others, would buy
// nothing (docs/findings/chains.md).
#include <algorithm>

#include <sluice/chain/chain.h>
#include <sluice/host/planner/dense/cluster_grid.h>
#include <sluice/spec/plain.h>
#include <sluice/spec/smem_layout.h>

namespace sluice {
namespace {

constexpr size_t kFarthest = 4;   // launches ahead: what is farther is put out again
constexpr i64 kBlobSlice = 2048;  // of packed weights: whoever reads a run of them reads many

/// What the rings of a launch that loads weights before it waits hold of each row of B. Nothing that counts
/// where CTAs of a second wave, or second tiles of a CTA, find theirs empty.
SkippedK ring_of(const PlannedStep& s, const ChainPlan& plan, const DeviceInfo& device) {
  if (!std::holds_alternative<ProductStep>(s.step.work) || s.overlap.wait != Wait::weights_first) return {};
  const Plan& product = plan.products[static_cast<size_t>(s.plan)];
  const KernelConfig& c = product.config;
  const Problem p = product_of(product.problem, c);
  const TileGrid grid = tile_grid(c, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k),
                                  static_cast<int>(p.batch));
  const i64 tiles = i64{grid.rows} * grid.columns * grid.batch;
  if (is_plain(c.schedule)) {
    if (tiles > i64{clusters_at_once(c.cluster.k, device)} * plain_ctas(c)) return {};
    return {i64{plain_early_row_bytes(c)}, c.cluster.k};
  }
  if (tiles > product.split.clusters || product.split.streamed > 0) return {};
  return {i64{c.stages} * kSwizzleRowBytes, c.cluster.k};
}

WarmRange share_of_b(const ProductStep& step, i64 bytes, const SkippedK& skip) {
  const RowsOfB b = rows_of_b(step);
  // The parts of a row are equal only roughly, and rows of them only where nothing lies between two rows.
  const i64 parts = b.stride == b.bytes && b.bytes % skip.parts == 0 ? skip.parts : 1;
  const i64 whole = b.bytes / parts, head = step.problem.b.major == Major::k ? skip.bytes : 0;
  if (head >= whole) return {};
  const i64 part = whole - head;
  if (bytes < part) return {static_cast<const u8*>(b.data) + head, bytes};
  return spread_rows(static_cast<const u8*>(b.data) + head, part, b.stride / parts, b.rows * parts,
                     bytes / part);
}

}  // namespace

WarmRange share_of_weights(const ChainStep& step, i64 bytes, const SkippedK& skip) {
  const StepRange weights = main_weights(step);
  bytes = std::min(bytes, weights.bytes);
  if (bytes <= 0) return {};
  if (const auto* product = std::get_if<ProductStep>(&step.work)) return share_of_b(*product, bytes, skip);
  if (bytes == weights.bytes || bytes < kBlobSlice) return {weights.data, bytes};
  return spread_rows(weights.data, kBlobSlice, kBlobSlice, weights.bytes / kBlobSlice, bytes / kBlobSlice);
}

void set_warm_ranges(ChainPlan& plan, const ChainOptions& options, const DeviceInfo& device) {
  const i64 most = static_cast<i64>(kMostOfL2 * static_cast<double>(device.l2_bytes));
  std::vector<PlannedStep*> launched;
  for (PlannedStep& s : plan.steps)
    if (s.launched) launched.push_back(&s);
  std::vector<bool> served(launched.size());  // by a step in front: its share is there already
  for (size_t i = 0; i < launched.size(); ++i) {
    PlannedStep& s = *launched[i];
    if (std::holds_alternative<ForeignStep>(s.step.work)) continue;
    const i64 own = std::min(s.step.prefetch_bytes.value_or(options.prefetch_bytes), most);
    if (s.overlap.wait != Wait::none && !served[i])
      s.prefetch = share_of_weights(s.step, own, ring_of(s, plan, device));
    s.prefetch.ctas = static_cast<u32>(device.sm_count);  // so many are there at once, in any launch
    if (!overlaps(s.overlap)) continue;
    const i64 given = std::min(s.step.hand_off_bytes.value_or(options.hand_off_bytes), most);
    const size_t end = std::min(launched.size(), i + 1 + kFarthest);
    for (size_t to = i + 1; to < end && !served[to] && total_bytes(s.hand_off) == 0; ++to) {
      s.hand_off = share_of_weights(launched[to]->step, given, ring_of(*launched[to], plan, device));
      served[to] = total_bytes(s.hand_off) > 0;
    }
  }
}

}  // namespace sluice
