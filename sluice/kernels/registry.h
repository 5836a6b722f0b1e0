// SPDX-License-Identifier: Apache-2.0
// The configs that are worth considering, and the config of a problem for a given tile. The planner, the
// tuner and the compile gate iterate over these tables (docs/adding.md). The file includes only spec and no
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

/// How A or B of `p` is loaded into the stages. `rows`: its extent, m or n. `p` must have its strides set.
SLUICE_HD constexpr Load load_of(const Matrix& x, i64 rows, const Problem& p) {
  const bool by_tma =
      !is_16bit(x.type) || is_conv(p.conv) || tma_addresses(x, outer_extent(x, rows, p.k), p.batch);
  return by_tma ? Load::tma : Load::strided;
}
SLUICE_HD constexpr bool loads_strided(const Problem& p) {
  return load_of(p.a, p.m, p) == Load::strided || load_of(p.b, p.n, p) == Load::strided;
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
      .load_b = load_of(p.b, p.n, p)};
  c.stages = max_stages(c);
  return c;
}

/// True if some kernel supports the types and layouts of `p`: validate() accepts them with a small tile.
SLUICE_HD constexpr bool gemm_supports(const Problem& p) {
  const StorePath store = kind_of(p.conv).phased ? StorePath::tma : StorePath::direct;
  const KernelConfig c = config_for(p, {Schedule::ping_pong, 64, 64}, ClusterShape{1, 1}, store);
  return p.c.major == Major::k && p.d.major == Major::k && validate(c) == nullptr;
}

/// A list of fixed capacity, so that it can be built at compile time.
struct ConfigList {
  static constexpr int kCapacity = 704;  // bounds the time of the compile gate: about 0.5 s per config
  KernelConfig items[kCapacity]{};
  int count = 0;

  constexpr const KernelConfig* begin() const { return items; }
  constexpr const KernelConfig* end() const { return items + count; }
  constexpr int size() const { return count; }
  /// Adds a config unless it is impossible. Exceeding the capacity is a compile error.
  constexpr void add(const KernelConfig& c) {
    if (validate(c) == nullptr) items[count++] = c;
  }
};

/// Tiles with which types, layouts and epilogues are varied: the narrowest, the usual ones, and the three
/// with the largest accumulators, where an epilogue would spill first.
inline constexpr BaseConfig kRepresentatives[] = {
    {Schedule::ping_pong, 64, 16},     {Schedule::ping_pong, 64, 64},     {Schedule::ping_pong, 128, 128},
    {Schedule::ping_pong, 128, 192},   {Schedule::ping_pong, 128, 208},   {Schedule::cooperative, 128, 256},
    {Schedule::cooperative, 256, 128}, {Schedule::cooperative, 256, 192},
};

/// Convolutions of the compile gate: each op, number of axes and loader, on the tiles with the largest
/// accumulators, and with each way to combine and to store.
constexpr void add_convs(ConfigList& list) {
  constexpr Schedule ping_pong = Schedule::ping_pong, cooperative = Schedule::cooperative;
  const auto add = [&](Problem p, const ConvKind& kind, const BaseConfig& base,
                       const ClusterShape& cluster = {}, Combine combine = Combine::none,
                       StorePath store = StorePath::tma) {
    p.conv = {.op = kind.op, .spatial = kind.spatial, .stride = {kind.phased ? 2 : 1, 1, 1}};
    p.a.major = kind.op == ConvOp::wgrad ? Major::mn : Major::k;
    p.b.major = kind.op == ConvOp::fprop ? Major::k : Major::mn;
    KernelConfig c = config_for(p, base, cluster, store);
    c.combine = combine;
    c.stages = max_stages(c);
    list.add(c);
  };
  const auto problem = [](DType in, DType out) {
    return Problem{.a = {.type = in}, .b = {.type = in}, .d = {.type = out}};
  };
  const Problem bf16 = problem(DType::bf16, DType::bf16), fp32 = problem(DType::bf16, DType::fp32),
                fp16 = problem(DType::fp16, DType::fp16);
  const auto of = [](ConvOp op, int spatial) { return ConvKind{.op = op, .spatial = spatial}; };
  const auto phases = [](int spatial) {
    return ConvKind{.op = ConvOp::dgrad, .spatial = spatial, .phased = true};
  };

  add(bf16, of(ConvOp::wgrad, 2), {cooperative, 128, 192});
  add(bf16, of(ConvOp::wgrad, 3), {cooperative, 128, 192});
  add(bf16, of(ConvOp::wgrad, 2), {cooperative, 256, 192});
  add(bf16, of(ConvOp::wgrad, 2), {cooperative, 128, 256});
  add(bf16, of(ConvOp::wgrad, 3), {cooperative, 128, 256}, {2, 1});
  add(fp32, of(ConvOp::wgrad, 2), {ping_pong, 64, 192}, {1, 1}, Combine::separate);
  add(fp32, of(ConvOp::wgrad, 2), {ping_pong, 128, 128}, {2, 1}, Combine::last_arriver);
  add(fp16, of(ConvOp::wgrad, 1), {ping_pong, 64, 64}, {1, 1, 2}, Combine::none, StorePath::direct);
  Problem added = fp32;
  added.epilogue.update = Update::add;
  add(added, of(ConvOp::wgrad, 2), {cooperative, 128, 128}, {1, 1}, Combine::add);

  add(bf16, of(ConvOp::fprop, 2), {ping_pong, 128, 192});
  add(bf16, of(ConvOp::fprop, 2), {cooperative, 256, 128}, {1, 2});
  add(bf16, of(ConvOp::fprop, 3), {ping_pong, 64, 64}, {1, 1, 4});
  add(fp16, of(ConvOp::fprop, 1), {ping_pong, 64, 64}, {1, 1}, Combine::none, StorePath::direct);
  Problem fp8 = problem(DType::e4m3, DType::bf16);
  fp8.accumulate = Accumulate::fast;
  fp8.epilogue = {.scale_a = ScaleMode::tensor,
                  .scale_b = ScaleMode::vector,
                  .bias = Bias::column,
                  .activation = Activation::relu,
                  .residual = true};
  add(fp8, of(ConvOp::fprop, 2), {ping_pong, 128, 128});
  fp8.accumulate = Accumulate::promoted;
  fp8.epilogue.residual = false;  // its registers are needed for partial sums
  add(fp8, of(ConvOp::fprop, 2), {ping_pong, 128, 128});

  add(bf16, of(ConvOp::dgrad, 3), {cooperative, 128, 256}, {2, 1});
  add(bf16, of(ConvOp::dgrad, 2), {ping_pong, 128, 128});
  add(bf16, phases(2), {ping_pong, 128, 128});
  add(bf16, phases(2), {cooperative, 256, 128}, {1, 2});
  add(fp32, phases(1), {ping_pong, 64, 64});
}
inline constexpr int kConvRepresentatives = 20;

/// Strided operands in the compile gate: one and both operands, in each layout, on the tiles with the largest
/// accumulators. Each way to store and to combine, a gate, and a full epilogue are included.
constexpr void add_strided(ConfigList& list) {
  constexpr BaseConfig kBases[] = {{Schedule::ping_pong, 64, 16},
                                   {Schedule::ping_pong, 128, 128},
                                   {Schedule::cooperative, 128, 256},
                                   {Schedule::cooperative, 256, 128}};
  constexpr StorePath tma = StorePath::tma, direct = StorePath::direct;
  for (const BaseConfig& base : kBases) {
    const auto add = [&](const Problem& p, const ClusterShape& cluster = {}, StorePath store = StorePath::tma,
                         Combine combine = Combine::none) {
      KernelConfig c = config_for(p, base, cluster, store);
      c.combine = combine;
      list.add(c);
    };
    Problem p;
    const bool is_large =
        base.tile_n == 256 || base.tile_n == base.tile_m;  // the other tiles vary only epilogues
    for (int layout = 0; layout < 4 && is_large; ++layout) {
      p.a = {.major = (layout & 1) != 0 ? Major::mn : Major::k, .unaligned = true};
      p.b = {.major = (layout & 2) != 0 ? Major::mn : Major::k, .unaligned = true};
      add(p, {}, layout % 2 == 0 ? tma : direct);
      p.b.unaligned = false;
      add(p, {1, 1, 2}, direct);
      p.a.unaligned = false;
      p.b.unaligned = true;
      add(p, {}, tma, Combine::last_arriver);
    }
    p = {.a = {.unaligned = true}, .b = {.unaligned = true}};
    p.epilogue = {.activation = Activation::silu, .gated = true};
    add(p);
    p.epilogue = {.scale_a = ScaleMode::vector,
                  .scale_b = ScaleMode::vector,
                  .bias = Bias::column,
                  .activation = Activation::gelu,
                  .residual = true,
                  .c_type = DType::fp32};
    add(p, {}, direct);
    p.epilogue = {.bias = Bias::column};
    add(transposed(p));
  }
}

/// The configs of the compile gate: every base config in every input type, and the representative tiles in
/// every output type, layout, store path and kind of epilogue.
constexpr ConfigList registered_configs() {
  ConfigList list;
  const auto problem = [](DType a, DType b, DType d, Accumulate accumulate) {
    return Problem{.a = {.type = a}, .b = {.type = b}, .d = {.type = d}, .accumulate = accumulate};
  };
  const Problem bf16 = problem(DType::bf16, DType::bf16, DType::bf16, Accumulate::fast);
  const Problem fp16 = problem(DType::fp16, DType::fp16, DType::fp16, Accumulate::fast);
  const Problem fp8 = problem(DType::e4m3, DType::e4m3, DType::bf16, Accumulate::fast);
  const Problem promoted = problem(DType::e4m3, DType::e4m3, DType::bf16, Accumulate::promoted);

  Problem block_scaled = promoted;
  block_scaled.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};

  // Each tile is compiled in bf16 with clusters of one and two CTAs, one cluster of four, one along k, one
  // that shares both operands, and once with combining. The other types take one cluster each, in turn.
  for (int i = 0; i < kGemmSpaceSize; ++i) {
    for (int j = 0; j < kClusterSpaceSize; ++j)
      if (j < 3 || j == 3 + i % 2 || j == 5 + i % 3 || j == 8 + i % 3)
        list.add(config_for(bf16, kGemmSpace[i], kClusterSpace[j], StorePath::tma));
    KernelConfig combining = config_for(bf16, kGemmSpace[i], kClusterSpace[5 * (i % 2)], StorePath::tma);
    combining.combine = Combine::last_arriver;
    if (i % 4 == 3 || validate(combining) != nullptr) combining.combine = Combine::separate;
    list.add(combining);
    const Problem others[] = {fp16, fp8, promoted, block_scaled};
    for (const Problem& other : others) {
      const KernelConfig c = config_for(other, kGemmSpace[i], kClusterSpace[i % 3], StorePath::tma);
      const bool divides = validate(c) == nullptr;  // some widths cannot be divided by two
      list.add(divides ? c : config_for(other, kGemmSpace[i], ClusterShape{1, 1}, StorePath::tma));
    }
    // Every second tile is also compiled with swapped operands: one type and cluster each, with and without a
    // bias, in turn.
    if (i % 2 != 0) continue;
    Problem few = i % 4 == 0 ? bf16 : fp8;
    if (i % 8 < 4) few.epilogue = {.bias = Bias::column, .activation = Activation::gelu};
    list.add(
        config_for(transposed(few), kGemmSpace[i], kClusterSpace[i % kClusterSpaceSize], StorePath::tma));
  }
  // Widths that the tables do not list, up to the largest accumulators.
  const int widths[] = {104, 152, 200, 248};
  for (const BaseConfig& height : kHeights)
    for (const int width : widths) {
      Problem many = width % 16 == 0 ? bf16 : fp8;
      if (width == 152) many.epilogue = {.scale_a = ScaleMode::vector, .bias = Bias::column};
      list.add(config_for(transposed(many), {height.schedule, height.tile_m, width}, ClusterShape{1, 1},
                          StorePath::tma));
    }

  const Epilogue epilogues[] = {
      {.scale_a = ScaleMode::tensor, .scale_b = ScaleMode::tensor},
      {.scale_a = ScaleMode::vector, .scale_b = ScaleMode::vector},
      {.bias = Bias::column, .bias_type = DType::bf16, .activation = Activation::relu},
      {.bias = Bias::column, .bias_type = DType::fp32, .activation = Activation::gelu},
      {.activation = Activation::silu, .residual = true, .c_type = DType::bf16},
      {.scale_a = ScaleMode::vector,
       .scale_b = ScaleMode::vector,
       .bias = Bias::column,
       .bias_type = DType::fp16,
       .activation = Activation::gelu,
       .residual = true,
       .c_type = DType::fp32},
  };
  // D += the product by both store paths, whole or in slices, with some kinds of scale.
  const auto add_adding = [&](const BaseConfig& base) {
    Problem p = problem(DType::bf16, DType::bf16, DType::fp32, Accumulate::fast);
    p.epilogue.update = Update::add;
    const bool scaled = base.tile_m == 64;
    if (scaled) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::vector;
    const StorePath stores[] = {StorePath::tma, StorePath::direct};
    const Combine combines[] = {Combine::none, Combine::add, Combine::last_arriver};
    for (const StorePath store : stores)
      for (const Combine combine : combines) {
        KernelConfig c = config_for(p, base, ClusterShape{1, 1}, store);
        c.combine = combine;
        if (store == StorePath::tma || combine == Combine::add || base.tile_n == 16) list.add(c);
      }
  };
  const DType e4m3 = DType::e4m3, e5m2 = DType::e5m2;
  // Gated products by each store path, with clusters of two, along k and in slices; and scale_d without a
  // gate.
  const auto add_gated = [&](const BaseConfig& base) {
    Problem fused = problem(e4m3, e4m3, e4m3, Accumulate::fast);
    fused.epilogue = {
        .scale_a = ScaleMode::tensor, .scale_b = ScaleMode::tensor, .scale_d = ScaleMode::tensor};
    list.add(config_for(fused, base, ClusterShape{1, 1}, StorePath::tma));
    fused.epilogue.gated = true;
    fused.epilogue.activation = Activation::silu;
    list.add(config_for(fused, base, ClusterShape{2, 1}, StorePath::tma));
    list.add(config_for(fused, base, ClusterShape{1, 1}, StorePath::direct));
    Problem full = bf16;
    full.epilogue = {.scale_a = ScaleMode::vector,
                     .scale_b = ScaleMode::vector,
                     .bias = Bias::column,
                     .activation = Activation::gelu,
                     .gated = true};
    list.add(config_for(full, base, ClusterShape{1, 1}, StorePath::tma));
    full.epilogue = {.activation = Activation::relu, .gated = true};
    list.add(config_for(full, base, ClusterShape{1, 1, 2}, StorePath::tma));
    KernelConfig combining = config_for(full, base, ClusterShape{1, 1}, StorePath::tma);
    combining.combine = Combine::last_arriver;
    list.add(combining);
  };
  // A width that is not a multiple of 16 columns, which a direct store supports.
  list.add(config_for(problem(e4m3, e4m3, e4m3, Accumulate::fast), {Schedule::ping_pong, 64, 40},
                      ClusterShape{1, 1}, StorePath::direct));
  for (const BaseConfig& base : kRepresentatives) {
    const auto add = [&](const Problem& p, StorePath store = StorePath::tma) {
      list.add(config_for(p, base, ClusterShape{1, 1}, store));
    };
    add(problem(DType::bf16, DType::bf16, DType::fp32, Accumulate::fast));
    add(problem(DType::bf16, DType::bf16, e4m3, Accumulate::fast));
    add(problem(e4m3, e5m2, DType::fp32, Accumulate::fast));
    add(problem(e5m2, e4m3, e4m3, Accumulate::promoted));
    add(problem(e5m2, e5m2, DType::fp16, Accumulate::fast));
    Problem scaled_and_more = block_scaled;
    scaled_and_more.epilogue.bias = Bias::column;
    scaled_and_more.epilogue.residual = true;
    add(scaled_and_more);
    Problem rows = fp8;  // torch's row-wise scales
    rows.epilogue = {.scale_a = ScaleMode::vector, .scale_b = ScaleMode::vector};
    add(rows);
    if (base.tile_m == 64) add(rows, StorePath::direct);
    add(bf16, StorePath::direct);
    add_adding(base);
    add_gated(base);
    add(problem(e4m3, e4m3, e4m3, Accumulate::fast), StorePath::direct);
    for (int layout = 1; layout < 4; ++layout) {
      Problem p = fp16;
      p.a.major = (layout & 1) != 0 ? Major::mn : Major::k;
      p.b.major = (layout & 2) != 0 ? Major::mn : Major::k;
      add(p);
    }
    for (const Epilogue& epilogue : epilogues) {
      Problem p = bf16;
      p.epilogue = epilogue;
      add(p);
    }
  }
  add_convs(list);
  add_strided(list);
  return list;
}

}  // namespace sluice
