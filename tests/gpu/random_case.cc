// SPDX-License-Identifier: Apache-2.0
#include "random_case.h"

#include <algorithm>

#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/dense/slices.h>
#include <sluice/spec/smem_layout.h>

#include "lab/random/dice.h"

namespace sluice::testing {
namespace {

constexpr int kTmaBytes = 16;
constexpr int kHardSizes[] = {0, 1, 7, 8, 15, 17, 63, 64, 65, 127, 128, 129};

i64 tma_round_up(i64 elements, DType type) {
  const i64 unit = kTmaBytes / bytes_of(type);
  return ceil_div(std::max<i64>(elements, 1), unit) * unit;
}

int random_extent(Dice& dice, int tile, int largest) {
  switch (dice.below(4)) {
    case 0: return dice.any_of(kHardSizes);
    case 1:
      return std::min(largest,
                      std::max(0, tile * dice.between(1, 3) + dice.between(-1, 1) * dice.between(0, 9)));
    default: return dice.between(1, largest);
  }
}

/// Returns a random k. Often k has about as many k-tiles as the ring has stages, to test the wrap of the
/// ring.
int random_k(Dice& dice, const KernelConfig& c, int largest) {
  switch (dice.below(4)) {
    case 0: return dice.any_of(kHardSizes);
    case 1: {
      const int k_tiles = c.stages * dice.between(1, 2) + dice.between(-1, 1);
      return std::max(0, c.tile.k * k_tiles - (dice.one_in(2) ? dice.between(0, c.tile.k - 1) : 0));
    }
    default: return dice.between(1, 2 * largest);
  }
}

/// Returns a valid leading dimension, with or without padding.
i64 random_ld(Dice& dice, i64 inner, DType type) {
  const i64 unit = kTmaBytes / bytes_of(type);
  return tma_round_up(inner, type) + unit * (dice.one_in(2) ? 0 : dice.between(1, 5));
}

void pad_strides(Dice& dice, Problem& p, bool tma_store) {
  p.a.ld = random_ld(dice, inner_extent(p.a, p.m, p.k), p.a.type);
  p.b.ld = random_ld(dice, inner_extent(p.b, p.n, p.k), p.b.type);
  p.d.ld =
      tma_store ? random_ld(dice, d_columns(p), p.d.type) : std::max<i64>(d_columns(p), 1) + dice.below(5);
  p.c.ld = std::max<i64>(p.n, 1) + (dice.one_in(2) ? 0 : dice.below(9));
  if (p.a.unaligned) p.a.ld = std::max<i64>(inner_extent(p.a, p.m, p.k), 1) + dice.below(11);
  if (p.b.unaligned) p.b.ld = std::max<i64>(inner_extent(p.b, p.n, p.k), 1) + dice.below(11);
  if (dice.one_in(2)) return;
  const auto apart = [&](const Matrix& x, i64 outer) { return x.ld * std::max<i64>(outer, 1); };
  p.a.batch_stride = random_ld(dice, apart(p.a, outer_extent(p.a, p.m, p.k)), p.a.type);
  p.b.batch_stride = random_ld(dice, apart(p.b, outer_extent(p.b, p.n, p.k)), p.b.type);
  if (p.a.unaligned) p.a.batch_stride += dice.below(9);
  if (p.b.unaligned) p.b.batch_stride += dice.below(9);
  p.d.batch_stride = random_ld(dice, apart(p.d, p.m), p.d.type);
  p.c.batch_stride = apart(p.c, p.m) + dice.below(9);
}

/// Rounds n up to what TMA can store: rows of D in units of 16 bytes (docs/findings/tma-store-tail.md).
i64 storable_n(const KernelConfig& c, i64 n) {
  if (c.epilogue.gated) {  // both halves must consist of whole groups
    const i64 unit = is_block_scaled(c.epilogue) ? kGatedScaleUnit
                     : c.store == StorePath::tma ? 2 * std::max(kTmaBytes / bytes_of(c.d), kGatedRows)
                                                 : kGatedGroup;
    return ceil_div(n, unit) * unit;
  }
  return c.store == StorePath::tma && n > 0 ? tma_round_up(n, c.d) : n;
}

Problem typed_problem(const KernelConfig& c) {
  const bool promoted = c.promotes;
  const Problem product{.a = {.type = c.a, .major = c.a_major, .unaligned = c.load_a == Load::strided},
                        .b = {.type = c.b, .major = c.b_major, .unaligned = c.load_b == Load::strided},
                        .c = {.type = c.epilogue.c_type},
                        .d = {.type = c.d, .major = c.d_major},
                        .epilogue = c.epilogue,
                        .accumulate = promoted ? Accumulate::promoted : Accumulate::fast,
                        .deterministic = c.combine != Combine::add};
  return is_swapped(c) ? transposed(product) : product;
}

TileGrid grid_of(const Problem& problem, const KernelConfig& config) {
  const Problem p = product_of(problem, config);
  return tile_grid(config, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k),
                   static_cast<int>(p.batch));
}

/// Any number of slices that a workspace has room for, also more than are resident at once.
void slice_some(Dice& dice, Plan& plan) {
  const TileGrid grid = grid_of(plan.problem, plan.config);
  const i64 tiles = cluster_tiles(grid);
  if (tiles == 0 || grid.k_tiles < 2) return;
  const Problem product = product_of(plan.problem, plan.config);
  const WorkSplit whole = plan.split;
  for (i64 most = std::min<i64>(grid.k_tiles, 400); most > 1; most /= 2) {
    plan.split = split_into(product, plan.config, whole, dice.between(2, static_cast<int>(most)));
    plan.workspace_bytes = workspace_bytes(plan.config, plan.split);
    if (slices_problem(product, plan.config, plan.split).empty() && plan.workspace_bytes <= kWorkspaceLimit)
      return;
  }
  plan.split = whole;
  plan.workspace_bytes = 0;
}

}  // namespace

Plan plan_for(const Problem& problem, const KernelConfig& config, const DeviceInfo& device, int clusters) {
  Plan plan{.problem = with_strides(problem), .config = config, .smem_bytes = smem_bytes(config)};
  const TileGrid grid = grid_of(plan.problem, config);
  const int most = std::max(1, std::min(cluster_tiles(grid), clusters_at_once(cluster_size(config), device)));
  plan.split.clusters = clusters == 0 ? most : std::min(clusters, most);
  if (is_plain(config.schedule)) plan.split.clusters = std::max(1, cluster_tiles(grid));
  // Uses a config's way to combine.
  if (config.combine != Combine::none && grid.k_tiles > 1)
    plan.split = split_into(product_of(plan.problem, config), config, plan.split, std::min(grid.k_tiles, 3));
  plan.workspace_bytes = workspace_bytes(config, plan.split);
  return plan;
}

Problem problem_for(const KernelConfig& config, i64 m, i64 n, i64 k) {
  Problem p = typed_problem(config);
  p.m = m;
  p.n = storable_n(config, n);
  p.k = k;
  const auto pitch = [](const Matrix& x, i64 inner) {
    return x.unaligned ? inner + 3 : tma_round_up(inner, x.type);
  };
  p.a.ld = pitch(p.a, inner_extent(p.a, m, k));
  p.b.ld = pitch(p.b, inner_extent(p.b, p.n, k));
  p.d.ld = tma_round_up(d_columns(p), p.d.type);
  p.c.ld = std::max<i64>(p.n, 1);
  if (config.scale_a_columns) p.scale_a_ld = std::max<i64>(p.m, 1) + 3;
  return p;
}

RandomCase random_case(const KernelConfig& config, const DeviceInfo& device, u64 seed,
                       const CaseLimits& limits) {
  Dice dice(seed);
  Problem p = typed_problem(config);
  int tile_m = config.tile.m * config.cluster.m, tile_n = config.tile.n * config.cluster.n;
  if (is_swapped(config)) std::swap(tile_m, tile_n);
  p.m = random_extent(dice, tile_m, limits.largest);
  p.n = storable_n(config, random_extent(dice, tile_n, limits.largest));
  p.k = random_k(dice, config, limits.largest);
  p.batch = dice.one_in(5) ? dice.between(2, 4) : 1;
  pad_strides(dice, p, config.store == StorePath::tma);
  if (config.scale_a_columns) p.scale_a_ld = std::max<i64>(p.m, 1) + dice.below(5);
  // With a single row, any pitch is valid. With several matrices the pitch also determines their distance,
  // which TMA restricts.
  const bool plain = is_plain(config.schedule) && p.batch == 1;
  if (plain && p.m == 1 && dice.one_in(2)) p.a.ld = p.k + dice.between(0, 3);
  if (plain && p.n == 1 && dice.one_in(2)) p.b.ld = p.k + dice.between(0, 3);
  // With few clusters each one computes many tiles, so that the ring and the store buffers wrap.
  RandomCase made{.plan = plan_for(p, config, device, dice.one_in(2) ? dice.between(1, 5) : 0), .data = {}};
  made.plan.split.raster = dice.one_in(2) ? Raster::along_m : Raster::along_n;
  made.plan.split.group = dice.between(1, 16);
  if (config.combine != Combine::none) slice_some(dice, made.plan);
  if (!is_plain(config.schedule) && made.plan.split.clusters <= kMostNumbered && dice.one_in(2))
    made.plan.split.numbering = Numbering::gpc;
  made.data = limits.real ? real_data(p, seed) : exact_data(p, seed);
  made.data.element_shift = dice.one_in(3) ? dice.between(1, 7) : 0;
  if (config.store == StorePath::direct) made.data.d_shift = dice.one_in(2) ? dice.between(1, 7) : 0;
  return made;
}

}  // namespace sluice::testing
