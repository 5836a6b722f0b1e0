// SPDX-License-Identifier: Apache-2.0
// Configs that tests compile, run in the host twin, and run on a GPU: every tile of the planner's tables. On
// representative tiles they have every type, layout, store path and kind of epilogue.
#pragma once

#include <sluice/kernels/registry.h>

namespace sluice {

/// A list of fixed capacity, so that it can be built at compile time.
struct ConfigList {
  static constexpr int kCapacity = 768;  // bounds the time of the compile gate: about 0.5 s per config
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

/// Products of experts: gates with block scales, block scales of D that the kernel computes, and factors of
/// rows, on every tile that has room for them.
constexpr void add_experts(ConfigList& list) {
  constexpr BaseConfig kBases[] = {{Schedule::ping_pong, 64, 128},
                                   {Schedule::ping_pong, 64, 256},
                                   {Schedule::ping_pong, 128, 128},
                                   {Schedule::cooperative, 128, 128},
                                   {Schedule::cooperative, 128, 256}};
  const Epilogue blocks{.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
  // Widths between which scales of columns are loaded for another number of k-tiles.
  for (const int columns : {64, 160, 192, 224}) {
    Problem p{.a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
    p.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::vector128};
    p.scale_a_ld = 1;
    list.add(config_for(p, {Schedule::cooperative, 128, columns}, {2, 1}, StorePath::tma));
    list.add(config_for(p, {Schedule::ping_pong, 64, columns}, {1, 1, 2}, StorePath::tma));
  }
  const auto problem = [](DType in, DType out, const Epilogue& e) {
    return Problem{.a = {.type = in}, .b = {.type = in}, .d = {.type = out}, .epilogue = e};
  };
  const auto add = [&](const Problem& p, const BaseConfig& base, const ClusterShape& cluster = {1, 1},
                       StorePath store = StorePath::tma) { list.add(config_for(p, base, cluster, store)); };
  const DType e4m3 = DType::e4m3, bf16 = DType::bf16;
  for (const BaseConfig& base : kBases) {
    Epilogue swiglu = blocks;
    swiglu.gated = true;
    swiglu.activation = Activation::silu;
    add(problem(e4m3, bf16, swiglu), base, {1, 2});
    swiglu.row_factors = true;
    add(problem(e4m3, bf16, swiglu), base, {1, 1}, StorePath::direct);
    swiglu.row_factors = false;
    swiglu.scale_d = ScaleMode::block;
    add(problem(e4m3, e4m3, swiglu), base, {1, 2});
    add(problem(e4m3, e4m3, swiglu), base, {1, 1}, StorePath::direct);
    swiglu.bias = Bias::column;
    swiglu.row_factors = true;
    add(problem(e4m3, e4m3, swiglu), base);
    swiglu.activation = Activation::clamped_swiglu;
    add(problem(e4m3, e4m3, swiglu), base);
    swiglu.row_factors = false;
    swiglu.scale_d = ScaleMode::none;
    add(problem(e4m3, bf16, swiglu), base);

    Epilogue quantised = blocks;
    quantised.scale_d = ScaleMode::block;
    add(problem(e4m3, e4m3, quantised), base,
        base.tile_m * base.tile_n < 128 * 128 ? ClusterShape{2, 1} : ClusterShape{1, 2});
    quantised = {.scale_a = ScaleMode::vector,
                 .scale_b = ScaleMode::vector,
                 .bias = Bias::column,
                 .activation = Activation::gelu,
                 .residual = true,
                 .c_type = DType::fp32,
                 .scale_d = ScaleMode::block};
    add(problem(e4m3, e4m3, quantised), base);
    add(problem(bf16, e4m3, quantised), base, {1, 1}, StorePath::direct);
    quantised.residual = false;
    quantised.gated = true;
    add(problem(bf16, e4m3, quantised), base);

    Epilogue routed = blocks;
    routed.row_factors = true;
    add(problem(e4m3, bf16, routed), base, {1, 2});
    Problem by_columns = problem(e4m3, bf16, blocks);
    by_columns.scale_a_ld = 1;
    add(by_columns, base, {1, 2});
    for (const DType out : {bf16, DType::fp32}) {
      Problem each_column = by_columns;
      each_column.epilogue.scale_b = ScaleMode::vector128;
      each_column.d.type = out;
      add(each_column, base, {2, 1});
      if (out == DType::fp32) each_column.epilogue.update = Update::add;
      add(each_column, base, {1, 1}, StorePath::direct);
    }
    Problem heavy = by_columns;
    heavy.epilogue = {.scale_a = ScaleMode::block,
                      .scale_b = ScaleMode::vector128,
                      .bias = Bias::column,
                      .activation = Activation::gelu};
    add(heavy, base, {1, 2});
    heavy.epilogue.scale_d = ScaleMode::block;
    heavy.d.type = e4m3;
    add(heavy, base);
    by_columns.batch = 8;
    by_columns.groups.kind = GroupKind::ends;
    by_columns.epilogue.row_factors = true;
    add(by_columns, base, {1, 1}, StorePath::direct);
    by_columns.groups.kind = GroupKind::counts;
    by_columns.epilogue.row_factors = false;
    add(by_columns, base);
    routed = {.scale_a = ScaleMode::vector,
              .bias = Bias::column,
              .activation = Activation::silu,
              .residual = true,
              .row_factors = true};
    add(problem(bf16, DType::fp32, routed), base);
  }
}

/// Products of groups with light epilogues, whose stores are unrolled. The tiles are those with the largest
/// accumulators, and two whose width lies between multiples of 64: if sums were chosen by index there, ptxas
/// would serialise the products.
constexpr void add_groups(ConfigList& list) {
  Problem p{.a = {.type = DType::bf16}, .b = {.type = DType::bf16}, .d = {.type = DType::bf16}};
  p.batch = 8;
  p.groups.kind = GroupKind::ends;
  for (const BaseConfig& base : {BaseConfig{Schedule::ping_pong, 128, 160},
                                 {Schedule::ping_pong, 128, 192},
                                 {Schedule::cooperative, 256, 160},
                                 {Schedule::cooperative, 128, 256}})
    list.add(config_for(p, base, {1, 1}, StorePath::tma));
  p.a.type = p.b.type = DType::e4m3;
  p.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
  list.add(config_for(p, {Schedule::cooperative, 128, 256}, {1, 1}, StorePath::tma));
}

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
  add_experts(list);
  add_groups(list);
  return list;
}

}  // namespace sluice
