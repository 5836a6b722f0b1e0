// SPDX-License-Identifier: Apache-2.0
// The configs that are worth considering, and the config of a problem for a given tile. The planner and
// the tuner iterate over these tables (docs/adding.md). The file includes only spec and no
// standard header, so that every part of the library can read it.
#pragma once

#include <sluice/spec/validate.h>

namespace sluice {

/// The fields that the tables list. Types, layouts and epilogue follow from the problem; the number of stages
/// follows from the remaining shared memory.
struct BaseConfig {
  Schedule schedule = Schedule::ping_pong;
  int tile_m = 128;
  int tile_n = 128;

  constexpr bool operator==(const BaseConfig&) const = default;
};

/// Tiles of the dense schedules with roles. ping_pong hides the epilogue, but two tiles share 64 K registers,
/// so it ends at 128 x 208. cooperative has the tiles with the least L2 traffic per flop. 64-row and narrow
/// tiles suit few rows or columns. Widths between powers of two suit products that would otherwise leave the
/// last wave partly empty.
inline constexpr BaseConfig kGemmSpace[] = {
    {Schedule::ping_pong, 64, 8},      {Schedule::ping_pong, 64, 16},     {Schedule::ping_pong, 64, 24},
    {Schedule::ping_pong, 64, 32},     {Schedule::ping_pong, 64, 40},     {Schedule::ping_pong, 64, 48},
    {Schedule::ping_pong, 64, 56},     {Schedule::ping_pong, 64, 64},     {Schedule::ping_pong, 64, 80},
    {Schedule::ping_pong, 64, 96},     {Schedule::ping_pong, 64, 112},    {Schedule::ping_pong, 64, 128},
    {Schedule::ping_pong, 64, 192},    {Schedule::ping_pong, 64, 224},    {Schedule::ping_pong, 64, 256},
    {Schedule::ping_pong, 128, 64},    {Schedule::ping_pong, 128, 80},    {Schedule::ping_pong, 128, 96},
    {Schedule::ping_pong, 128, 112},   {Schedule::ping_pong, 128, 128},   {Schedule::ping_pong, 128, 144},
    {Schedule::ping_pong, 128, 160},   {Schedule::ping_pong, 128, 176},   {Schedule::ping_pong, 128, 192},
    {Schedule::ping_pong, 128, 208},   {Schedule::cooperative, 128, 64},  {Schedule::cooperative, 128, 80},
    {Schedule::cooperative, 128, 96},  {Schedule::cooperative, 128, 128}, {Schedule::cooperative, 128, 160},
    {Schedule::cooperative, 128, 192}, {Schedule::cooperative, 128, 224}, {Schedule::cooperative, 128, 256},
    {Schedule::cooperative, 256, 64},  {Schedule::cooperative, 256, 96},  {Schedule::cooperative, 256, 128},
    {Schedule::cooperative, 256, 160}, {Schedule::cooperative, 256, 192}, {Schedule::cooperative, 256, 208},
};
inline constexpr int kGemmSpaceSize = sizeof(kGemmSpace) / sizeof(kGemmSpace[0]);

/// Schedules and tile heights. Records may combine each with any width. Widths follow from the problem
/// (width_of_parts) with swapped operands, and where tiles should fill whole waves. With swapped operands,
/// rows of A are cut into 1 to kMostSwappedParts equal parts, or so that tiles fill waves.
inline constexpr BaseConfig kHeights[] = {{Schedule::ping_pong, 64, 0},
                                          {Schedule::ping_pong, 128, 0},
                                          {Schedule::cooperative, 128, 0},
                                          {Schedule::cooperative, 256, 0}};
inline constexpr int kMostSwappedParts = 8;
/// Tile width that covers the columns in `parts` tiles; 0 if no tile is that wide. MN-major operands and
/// block scales need multiples of 32 (docs/findings/splits.md); the planner skips some of those
/// (candidates.cc, is_slow_width). All others need multiples of 8 with swapped operands, else of 16, because
/// a row of D is stored in pieces that divide the width.
SLUICE_HD constexpr int width_of_parts(const Problem& product, i64 parts) {
  const bool coarse = product.b.major == Major::mn || is_block_scaled(product.epilogue);
  const i64 unit = coarse ? 32 : is_transposed(product) ? 8 : 16;
  const i64 width = ceil_div(ceil_div(product.n, parts), unit) * unit;
  return width > 256 ? 0 : static_cast<int>(width);
}

/// The number of stages with which a narrow tile keeps 64 KB per SM in flight, as HBM's latency times its
/// bandwidth requires (docs/findings/decode.md).
inline constexpr int kMaxStages = 16;

/// A base config of Schedule::plain; tile.m comes from plain_rows().
struct PlainBase {
  int tile_n = 64;
  int warps = 8;
  int stages = 3;

  constexpr bool operator==(const PlainBase&) const = default;
};

/// Rings of 70 to 220 KB per SM, for one or two CTAs per SM. Tall tiles that fill half a wave compete with
/// low tiles that fill a whole one; which is faster depends on the number of tokens
/// (docs/findings/plain-loads.md).
inline constexpr PlainBase kPlainSpace[] = {{16, 8, 8},  {16, 8, 5}, {32, 8, 4},  {32, 8, 3}, {32, 8, 2},
                                            {32, 16, 2}, {32, 4, 4}, {64, 8, 3},  {64, 8, 2}, {64, 4, 4},
                                            {64, 4, 3},  {64, 4, 2}, {128, 4, 3}, {128, 4, 2}};

/// The smallest tile.m of a plain schedule that holds `m` rows of A; the largest tile.m if none does.
SLUICE_HD constexpr int plain_rows(Schedule schedule, i64 m) {
  constexpr int kByWarps[] = {8, 16, 32, 64}, kByGroups[] = {8, 16, 32, 48, 64, 96, 128};
  if (schedule == Schedule::plain) {
    for (const int rows : kByWarps)
      if (m <= rows) return rows;
    return 64;
  }
  for (const int rows : kByGroups)
    if (m <= rows) return rows;
  return 128;
}

/// A base config of Schedule::plain_wgmma. tile.m is plain_rows(); the number of stages is the most with
/// which `ctas` CTAs fit on an SM.
struct PlainWgmmaBase {
  int tile_n = 64;
  int warps = 8;
  int ctas = 1;

  constexpr bool operator==(const PlainWgmmaBase&) const = default;
};
inline constexpr PlainWgmmaBase kPlainWgmmaSpace[] = {
    {16, 8, 1},  {16, 8, 2},  {32, 8, 1},  {32, 8, 2},  {32, 16, 1}, {32, 4, 3},  {48, 8, 1},
    {48, 8, 2},  {64, 4, 3},  {64, 4, 2},  {64, 8, 1},  {64, 8, 2},  {64, 16, 1}, {80, 4, 3},
    {80, 8, 2},  {96, 4, 2},  {96, 8, 2},  {112, 4, 2}, {112, 8, 2}, {128, 4, 1}, {128, 4, 2},
    {128, 8, 1}, {128, 8, 2}, {224, 8, 1}, {256, 8, 1}};

/// The most stages with which `ctas` CTAs of `c` fit on an SM; a result below 2 means that the config is
/// unusable. That includes tiles that plain kernels do not have, and accumulators too large for that many
/// CTAs.
SLUICE_HD constexpr int plain_stages(KernelConfig c, int ctas) {
  if (c.tile.m < 8 || c.tile.m > 128 || c.tile.n < 16 || c.tile.n > 256 || c.warps < 1 || c.warps > 16)
    return 0;
  if (ctas > 1 && plain_threads(c) < ctas * 32 * c.warps) return 0;
  c.stages = kMaxStages;
  while (c.stages > 1 &&
         (plain_smem_bytes(c) > kMaxSmemBytes || (plain_smem_bytes(c) + kSmemOfCta) * ctas > kSmemOfSm))
    --c.stages;
  return c.stages;
}

/// Clusters of four and eight leave some SMs idle (docs/findings/clusters-of-four.md). They pay only where L2
/// limits a single wave. Clusters of eight pay where both operands are shared (docs/findings/splits.md).
inline constexpr ClusterShape kClusterSpace[] = {{1, 1},    {2, 1},    {1, 2}, {4, 1}, {1, 4}, {1, 1, 2},
                                                 {1, 1, 4}, {1, 1, 8}, {2, 2}, {4, 2}, {2, 4}};
inline constexpr int kClusterSpaceSize = sizeof(kClusterSpace) / sizeof(kClusterSpace[0]);

/// The most stages, up to kMaxStages, that fit in shared memory together with the store buffers; 0 if none
/// fits.
SLUICE_HD constexpr int max_stages(KernelConfig c) {
  for (int stages = kMaxStages; stages > 0; --stages) {
    c.stages = stages;
    if (smem_bytes(c) <= kMaxSmemBytes) return stages;
  }
  return 0;
}

/// The epilogue with unused fields at their defaults, so that problems that need the same kernel share one.
SLUICE_HD constexpr Epilogue canonical(Epilogue e) {
  if (e.bias == Bias::none) e.bias_type = Epilogue{}.bias_type;
  if (!e.residual) e.c_type = Epilogue{}.c_type;
  return e;
}

/// How A or B of `p` is loaded into the stages; those of groups must be aligned. `rows`: its extent, m or n.
/// `p` must have its strides set.
SLUICE_HD constexpr Load load_of(const Matrix& x, i64 rows, const Problem& p) {
  const bool by_tma = !is_16bit(x.type) || is_conv(p.conv) || reads_table(p) ||
                      tma_addresses(x, outer_extent(x, rows, p.k), p.batch);
  return by_tma ? Load::tma : Load::strided;
}
SLUICE_HD constexpr bool loads_strided(const Problem& p) {
  return load_of(p.a, p.m, p) == Load::strided || load_of(p.b, p.n, p) == Load::strided;
}

/// Kernels have room for few sizes of tables, so that one serves many numbers of groups. Beside a table of 32
/// groups, tiles of 128 x 256 keep the stages that they have without a table.
SLUICE_HD constexpr GroupConfig group_config(const Problem& p) {
  if (!reads_table(p)) return {};
  if (by_slots(p)) return {p.groups.kind, kMostGroups};  // which have no table in shared memory
  return {p.groups.kind, p.batch <= 32 ? 32 : p.batch <= 128 ? 128 : p.batch <= 512 ? 512 : kMostGroups};
}

/// The config that runs `p` with this tile; for a transposed() problem, the one with swapped operands. The
/// result may be impossible: check it with validate().
SLUICE_HD constexpr KernelConfig config_for(const Problem& p, BaseConfig base, ClusterShape cluster,
                                            StorePath store) {
  KernelConfig c{
      .schedule = base.schedule,
      .tile = {base.tile_m, base.tile_n, k_block(p.a.type)},
      .cluster = cluster,
      .a = p.a.type,
      .b = p.b.type,
      .d = p.d.type,
      .a_major = p.a.major,
      .b_major = p.b.major,
      .d_major = p.d.major,
      .promotes = is_promoted(p) && base.schedule != Schedule::plain,  // plain keeps all sums in fp32
      .store = store,
      .epilogue = canonical(p.epilogue),
      .conv = kind_of(p.conv),
      .load_a = load_of(p.a, p.m, p),
      .load_b = load_of(p.b, p.n, p),
      .groups = group_config(p),
      .scale_a_columns = scales_by_columns(p)};
  c.stages = max_stages(c);
  return c;
}

/// True if some kernel supports the types and layouts of `p`: validate() accepts them with a small tile,
/// which has whole blocks if D has block scales.
SLUICE_HD constexpr bool gemm_supports(const Problem& p) {
  const StorePath store = kind_of(p.conv).phased ? StorePath::tma : StorePath::direct;
  const int width = writes_scales(p.epilogue) ? kScaleBlock * (p.epilogue.gated ? 2 : 1) : 64;
  const BaseConfig small =
      by_slots(p) ? BaseConfig{Schedule::plain, 8, 16} : BaseConfig{Schedule::ping_pong, 64, width};
  KernelConfig c = config_for(p, small, ClusterShape{1, 1}, store);
  if (by_slots(p)) c.warps = 4;
  return p.c.major == Major::k && p.d.major == Major::k && validate(c) == nullptr;
}

}  // namespace sluice
