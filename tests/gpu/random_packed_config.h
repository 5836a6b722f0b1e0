// SPDX-License-Identifier: Apache-2.0
// Configs of packed kernels: random valid ones, and some that are unlikely to be drawn. Used by
// packed_test.cc.
#pragma once

#include <vector>

#include "lab/random/dice.h"
#include "tests/packed_problems.h"

namespace sluice::testing {
/// Activations of packed products.
inline constexpr Activation kPackedActivations[] = {Activation::none, Activation::relu, Activation::gelu,
                                                    Activation::silu};

inline constexpr int kHeldTokens[] = {0, 0, 1, 4};
inline constexpr int kTokenBlocks[] = {1, 1, 2, 4}, kRowBlocks[] = {2, 4, 4, 8},
                     kWarps[] = {1, 3, 4, 8, 12, 16};
inline constexpr int kStages[] = {2, 2, 3, 4, 5}, kParts[] = {1, 1, 2, 4, 8}, kCtas[] = {1, 1, 2};
inline constexpr DType kOutputs[] = {DType::fp16, DType::bf16, DType::fp32};
inline constexpr Activation kActivations[] = {Activation::none, Activation::none, Activation::relu,
                                              Activation::gelu, Activation::silu};

/// Returns a random width of a tile, in tokens, of at most `most`.
inline int random_tokens(int most, Dice& dice) {
  return kTokenBlock * static_cast<int>(dice.between(1, most / kTokenBlock));
}
inline constexpr int kXStages[] = {2, 3, 4, 5, 8}, kWStages[] = {1, 2, 3, 4};

/// Returns a random valid config for the format, over all cluster shapes and rings.
inline WideConfig random_wide_config(const WeightFormat& format, Dice& dice) {
  for (;;) {
    WideConfig c{.weights = format,
                 .x = dice.one_in(2) ? DType::bf16 : DType::fp16,
                 .d = dice.any_of(kOutputs),
                 .bias = dice.one_in(2) ? Bias::column : Bias::none,
                 .bias_type = WideConfig{}.bias_type,
                 .activation = dice.any_of(kPackedActivations),
                 .tokens = random_tokens(kWideMostTokens, dice),
                 .x_stages = dice.any_of(kXStages),
                 .w_stages = dice.any_of(kWStages)};
    if (dice.one_in(2)) c.cluster_n = 2;
    if (validate(c) == nullptr) return c;
  }
}

inline constexpr int kStrips[] = {1, 1, 2, 3, 4}, kKGroups[] = {1, 2, 3, 4},
                     kStripParts[] = {1, 1, 2, 3, 4, 5, 8}, kStripStages[] = {2, 3, 4, 6, 7, 9, 12, 16};
inline constexpr DType kStripOutputs[] = {DType::fp16, DType::bf16, DType::fp32, DType::e4m3};
inline constexpr ScaleMode kTokenScales[] = {ScaleMode::none, ScaleMode::tensor, ScaleMode::vector};

/// Returns a random valid config of the strip kernel. The order of the weights determines the type of the
/// tokens.
inline StripConfig random_strip_config(const WeightFormat& format, Dice& dice) {
  const bool half = format.order == FragmentOrder::half;
  for (;;) {
    const DType d = half ? dice.any_of(kOutputs) : dice.any_of(kStripOutputs);
    const StripConfig c{.weights = format,
                        .x = !half            ? DType::e4m3
                             : dice.one_in(2) ? DType::bf16
                                              : DType::fp16,
                        .d = d,
                        .scale_x = half ? ScaleMode::none : dice.any_of(kTokenScales),
                        .bias = dice.one_in(2) ? Bias::column : Bias::none,
                        .bias_type = StripConfig{}.bias_type,
                        .activation = dice.any_of(kPackedActivations),
                        .gated = dice.one_in(3),
                        .scale_d = d == DType::e4m3 && !dice.one_in(3) ? ScaleMode::tensor : ScaleMode::none,
                        .tokens = random_tokens(dice.one_in(2) ? 192 : 64, dice),
                        .strips = dice.any_of(kStrips),
                        .k_groups = dice.any_of(kKGroups),
                        .parts = dice.any_of(kStripParts),
                        .stages = dice.any_of(kStripStages)};
    if (validate(c) == nullptr) return c;
  }
}

/// Returns configs for e4m3 tokens with an e4m3 D and its scale. They cover every tile of tokens with all
/// possible strips, k_groups and slices. Gated ones have two or four strips.
inline std::vector<StripConfig> quantised_strip_configs() {
  struct Tile {
    int tokens, strips, k_groups, parts, stages;
  };
  constexpr Tile kTiles[] = {{8, 2, 1, 1, 4},  {8, 2, 2, 8, 6},   {8, 4, 1, 3, 6},   {16, 2, 2, 1, 8},
                             {16, 4, 1, 2, 3}, {32, 2, 2, 3, 4},  {32, 4, 1, 1, 4},  {64, 2, 2, 2, 4},
                             {64, 4, 1, 1, 2}, {128, 2, 1, 2, 3}, {8, 1, 4, 2, 8},   {16, 1, 3, 1, 6},
                             {32, 1, 4, 1, 8}, {64, 1, 2, 3, 4},  {128, 1, 2, 1, 4}, {128, 1, 1, 8, 3}};
  constexpr WeightFormat kFormats[] = {
      {.scale = DType::bf16, .order = FragmentOrder::byte},
      {.group = 32, .scale = DType::fp32, .zero = ScaleZero::per_group, .order = FragmentOrder::byte},
      {.group = 0, .order = FragmentOrder::byte}};
  std::vector<StripConfig> configs;
  for (const Tile& t : kTiles) {
    const size_t i = configs.size();
    configs.push_back({.weights = kFormats[i % 3],
                       .d = DType::e4m3,
                       .scale_x = i % 2 == 0 ? ScaleMode::tensor : ScaleMode::vector,
                       .bias = i % 4 < 2 ? Bias::none : Bias::column,
                       .activation = i % 5 < 3 ? Activation::relu : Activation::none,
                       .gated = t.strips > 1,
                       .scale_d = ScaleMode::tensor,
                       .tokens = t.tokens,
                       .strips = t.strips,
                       .k_groups = t.k_groups,
                       .parts = t.parts,
                       .stages = t.stages});
  }
  return configs;
}

/// Returns a random valid config for the format. It may spill registers: such kernels must compute right
/// results too.
inline NarrowConfig random_config(const WeightFormat& format, Dice& dice) {
  for (;;) {
    NarrowConfig c{.weights = format,
                   .x = dice.one_in(2) ? DType::bf16 : DType::fp16,
                   .d = dice.any_of(kOutputs),
                   .bias = dice.one_in(2) ? Bias::column : Bias::none,
                   .bias_type = NarrowConfig{}.bias_type,
                   .activation = dice.any_of(kPackedActivations),
                   .gated = dice.one_in(3),
                   .token_blocks = dice.any_of(kTokenBlocks),
                   .row_blocks = dice.any_of(kRowBlocks),
                   .warps = dice.any_of(kWarps),
                   .stages = dice.any_of(kStages),
                   .parts = dice.any_of(kParts),
                   .ctas = dice.any_of(kCtas)};
    if (c.token_blocks == 1) c.held_tokens = dice.any_of(kHeldTokens);
    c.norm_a = c.x == DType::bf16 && c.token_blocks == 1 && dice.one_in(2);
    c.residual = !c.gated && dice.one_in(3);
    if (validate(c) == nullptr) return c;
  }
}

}  // namespace sluice::testing
