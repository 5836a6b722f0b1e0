// SPDX-License-Identifier: Apache-2.0
#include "config_pool.h"

#include <algorithm>

#include "lab/random/dice.h"
#include "tests/registered_configs.h"

namespace sluice::testing {
namespace {

constexpr int kRandomConfigs = 120, kPlainConfigs = 150, kSwappedConfigs = 80, kStridedConfigs = 120;
constexpr ClusterShape kClusters[] = {{1, 1}, {1, 1}, {2, 1}, {1, 2},    {2, 2},    {4, 1},
                                      {1, 4}, {4, 2}, {2, 4}, {1, 1, 2}, {1, 1, 4}, {1, 1, 8}};
constexpr DType kInputs[] = {DType::bf16, DType::fp16, DType::e4m3, DType::e5m2};
constexpr DType kFp8[] = {DType::e4m3, DType::e5m2};
constexpr DType kOutputs[] = {DType::bf16, DType::fp16, DType::fp32, DType::e4m3};
constexpr DType kVectorTypes[] = {DType::bf16, DType::fp16, DType::fp32};
constexpr ScaleMode kScales[] = {ScaleMode::none, ScaleMode::tensor, ScaleMode::vector};

Epilogue random_epilogue(Dice& dice, std::initializer_list<Activation> activations) {
  return canonical({.scale_a = dice.any_of(kScales),
                    .scale_b = dice.any_of(kScales),
                    .bias = dice.one_in(2) ? Bias::column : Bias::none,
                    .bias_type = dice.any_of(kVectorTypes),
                    .activation = dice.any_of(activations),
                    .residual = dice.one_in(2),
                    .c_type = dice.any_of(kVectorTypes)});
}

/// Makes the product add to D. Shared tiles are then combined in order or in any order.
void make_adding(Dice& dice, KernelConfig& c) {
  c.epilogue = {.scale_a = c.epilogue.scale_a, .scale_b = c.epilogue.scale_b, .update = Update::add};
  if (c.combine != Combine::none && dice.one_in(2)) c.combine = Combine::add;
}

/// Where possible, gives half of the configs a scale of D or block scales of D, a quarter a gate, and an
/// eighth factors of rows.
void make_fused(Dice& dice, KernelConfig& c) {
  if (c.d == DType::e4m3 && dice.one_in(2))
    c.epilogue.scale_d = dice.one_in(2) && !is_plain(c.schedule) ? ScaleMode::block : ScaleMode::tensor;
  if (!is_plain(c.schedule) && dice.one_in(8)) c.epilogue.row_factors = true;
  if (c.b_major != Major::k || !dice.one_in(4)) return;
  c.epilogue.gated = true;
  c.epilogue.residual = false;
  c.epilogue = canonical(c.epilogue);
}

/// Draws a config. It may be invalid, so the caller must call validate().
KernelConfig random_config(Dice& dice, std::initializer_list<Activation> activations) {
  const BaseConfig base = dice.any_of(kGemmSpace);
  KernelConfig c{.schedule = base.schedule, .tile = {base.tile_m, base.tile_n, 0}};
  c.a = dice.any_of(kInputs);
  c.b = is_fp8(c.a) ? dice.any_of(kFp8) : c.a;
  c.d = dice.any_of(kOutputs);
  c.tile.k = k_block(c.a);
  c.cluster = dice.any_of(kClusters);
  if (is_16bit(c.a) && dice.one_in(2)) c.a_major = Major::mn;
  if (is_16bit(c.a) && dice.one_in(2)) c.b_major = Major::mn;
  c.promotes = is_fp8(c.a) && dice.one_in(2);
  c.store = dice.one_in(4) ? StorePath::direct : StorePath::tma;
  c.epilogue = random_epilogue(dice, activations);
  if (c.promotes && dice.one_in(2)) c.epilogue.scale_a = c.epilogue.scale_b = ScaleMode::block;
  make_fused(dice, c);
  if (dice.one_in(2)) c.combine = dice.one_in(3) ? Combine::separate : Combine::last_arriver;
  if (c.d == DType::fp32 && dice.one_in(2)) make_adding(dice, c);
  const int most = max_stages(c);
  c.stages = dice.one_in(2) ? most : std::min(most, dice.between(2, 4));
  return c;
}

/// Draws a config with a plain schedule and any tile, ring and split. It may be invalid.
KernelConfig random_plain_config(Dice& dice, std::initializer_list<Activation> activations) {
  constexpr int kTokens[] = {8, 16, 32, 48, 64, 80, 96, 112, 128}, kRows[] = {16, 32, 64, 128},
                kWarps[] = {4, 8, 16}, kParts[] = {1, 1, 2, 4, 8};
  KernelConfig c = random_config(dice, activations);
  c.schedule = dice.one_in(2) ? Schedule::plain : Schedule::plain_wgmma;
  c.tile.m = dice.any_of(kTokens);
  c.tile.n = dice.any_of(kRows);
  c.cluster = {1, 1, dice.any_of(kParts)};
  c.a_major = c.b_major = Major::k;
  c.promotes = false;
  c.store = StorePath::direct;
  c.combine = Combine::none;
  if (is_block_scaled(c.epilogue) || writes_scales(c.epilogue) || c.epilogue.row_factors)
    c.epilogue = random_epilogue(dice, activations);
  make_fused(dice, c);
  if (c.schedule == Schedule::plain_wgmma && dice.one_in(2)) c.tile.n = 16 * dice.between(1, 16);
  c.warps = dice.any_of(kWarps);
  c.stages =
      dice.one_in(2) ? std::max(2, plain_stages(c, dice.between(1, kMaxPlainCtas))) : dice.between(2, 5);
  return c;
}

/// Draws a config with swapped operands, without the features that these do not support. It may be invalid.
KernelConfig random_swapped_config(Dice& dice, std::initializer_list<Activation> activations) {
  KernelConfig c = random_config(dice, activations);
  c.d_major = Major::mn;
  if (!is_16bit(c.d)) c.d = DType::bf16;
  c.store = StorePath::tma;
  c.epilogue = canonical({.scale_a = dice.any_of(kScales),
                          .scale_b = dice.any_of(kScales),
                          .bias = dice.one_in(2) ? Bias::row : Bias::none,
                          .bias_type = dice.any_of(kVectorTypes),
                          .activation = dice.any_of(activations)});
  if (c.combine == Combine::separate || c.combine == Combine::add) c.combine = Combine::last_arriver;
  c.stages = std::min(max_stages(c), dice.one_in(2) ? kMaxStages : dice.between(2, 4));
  return c;
}

/// Draws a config in which one or both operands have any address and stride. It may be invalid.
KernelConfig random_strided_config(Dice& dice, std::initializer_list<Activation> activations) {
  KernelConfig c =
      dice.one_in(4) ? random_swapped_config(dice, activations) : random_config(dice, activations);
  c.a = c.b = dice.one_in(2) ? DType::bf16 : DType::fp16;
  c.tile.k = k_block(c.a);
  c.promotes = false;
  if (is_block_scaled(c.epilogue)) c.epilogue = random_epilogue(dice, activations);
  c.cluster.m = c.cluster.n = 1;
  c.load_a = dice.one_in(4) ? Load::tma : Load::strided;
  c.load_b = c.load_a == Load::tma || !dice.one_in(4) ? Load::strided : Load::tma;
  c.stages = std::min(max_stages(c), dice.one_in(2) ? kMaxStages : dice.between(2, 4));
  return c;
}

void add(std::vector<KernelConfig>& pool, const KernelConfig& c) {
  if (validate(c) == nullptr && std::find(pool.begin(), pool.end(), c) == pool.end()) pool.push_back(c);
}

void add_random(std::vector<KernelConfig>& pool, u64 seed, size_t count,
                std::initializer_list<Activation> activations) {
  Dice dice(seed);
  while (pool.size() < count) add(pool, random_config(dice, activations));
}

void add_random_swapped(std::vector<KernelConfig>& pool, u64 seed, size_t count,
                        std::initializer_list<Activation> activations) {
  Dice dice(seed);
  while (pool.size() < count) add(pool, random_swapped_config(dice, activations));
}

void add_random_strided(std::vector<KernelConfig>& pool, u64 seed, size_t count,
                        std::initializer_list<Activation> activations) {
  Dice dice(seed);
  while (pool.size() < count) add(pool, random_strided_config(dice, activations));
}

void add_random_plain(std::vector<KernelConfig>& pool, u64 seed, size_t count,
                      std::initializer_list<Activation> activations) {
  Dice dice(seed);
  while (pool.size() < count) add(pool, random_plain_config(dice, activations));
}

}  // namespace

std::vector<KernelConfig> exact_pool() {
  static constexpr ConfigList kRegistered = registered_configs();
  std::vector<KernelConfig> pool;
  for (const KernelConfig& c : kRegistered)
    if (c.conv.op == ConvOp::none &&
        (c.epilogue.activation == Activation::none || c.epilogue.activation == Activation::relu))
      add(pool, c);
  add_random(pool, 1, pool.size() + kRandomConfigs, {Activation::none, Activation::none, Activation::relu});
  add_random_plain(pool, 3, pool.size() + kPlainConfigs, {Activation::none, Activation::relu});
  add_random_swapped(pool, 5, pool.size() + kSwappedConfigs, {Activation::none, Activation::relu});
  add_random_strided(pool, 7, pool.size() + kStridedConfigs, {Activation::none, Activation::relu});
  return pool;
}

std::vector<KernelConfig> real_pool() {
  std::vector<KernelConfig> pool;
  add_random(pool, 2, 64, {Activation::none, Activation::relu, Activation::gelu, Activation::silu});
  add_random_plain(pool, 4, 80, {Activation::none, Activation::relu, Activation::gelu, Activation::silu});
  add_random_swapped(pool, 6, 96, {Activation::none, Activation::relu, Activation::gelu, Activation::silu});
  add_random_strided(pool, 8, 112, {Activation::none, Activation::relu, Activation::gelu, Activation::silu});
  return pool;
}

std::vector<KernelConfig> class_pool() {
  constexpr BaseConfig kShapes[] = {{Schedule::ping_pong, 64, 64}, {Schedule::cooperative, 128, 64}};
  constexpr ClusterShape kClassClusters[] = {{1, 1}, {2, 1}, {1, 2}, {1, 1, 2}};
  std::vector<KernelConfig> pool;
  for (const BaseConfig& shape : kShapes)
    for (const ClusterShape& cluster : kClassClusters)
      for (const StorePath store : {StorePath::tma, StorePath::direct}) {
        const auto add_class = [&](DType input, Major major, Accumulate accumulate,
                                   ScaleMode scale_b = ScaleMode::none) {
          Problem p{.a = {.type = input, .major = major}, .b = {.type = input, .major = major}};
          p.accumulate = accumulate;
          p.epilogue = {.scale_a = scale_b == ScaleMode::block ? scale_b : ScaleMode::vector,
                        .scale_b = scale_b,
                        .bias = Bias::column,
                        .residual = store == StorePath::tma};
          KernelConfig c = config_for(p, shape, cluster, store);
          c.stages = 3;
          add(pool, c);
          c.combine = Combine::last_arriver;
          if (store == StorePath::tma) add(pool, c);
          c.combine = Combine::separate;
          if (store == StorePath::direct) add(pool, c);
        };
        add_class(DType::bf16, Major::k, Accumulate::fast);
        add_class(DType::fp16, Major::mn, Accumulate::fast);
        add_class(DType::e4m3, Major::k, Accumulate::fast);
        add_class(DType::e4m3, Major::k, Accumulate::promoted);
        add_class(DType::e4m3, Major::k, Accumulate::promoted, ScaleMode::block);
        if (multicasts({.cluster = cluster})) continue;
        Problem gradient{.d = {.type = DType::fp32}, .epilogue = {.update = Update::add}};
        KernelConfig c = config_for(gradient, shape, cluster, store);
        c.stages = 3;
        for (const Combine combine : {Combine::none, Combine::last_arriver, Combine::add}) {
          c.combine = combine;
          add(pool, c);
        }
      }
  return pool;
}

}  // namespace sluice::testing
