// SPDX-License-Identifier: Apache-2.0
// Configs of the strip kernel: for each rule a case breaks it, and parts of shared memory are aligned for
// copies, barriers and vector loads.
#include <sluice/spec/strip.h>

#include "rule_cases.h"

namespace sluice::test {
namespace {

const std::vector<Broken<StripConfig>>& broken_configs() {
  static const std::vector<Broken<StripConfig>> kAll = {
      {"an 8-bit A takes weights in the order byte", {.weights = {.order = FragmentOrder::half}}},
      {"A must be fp16, bf16 or e4m3", {.x = DType::e5m2}},
      {"a 16-bit A takes weights in the order half", {.x = DType::bf16}},
      {"an e4m3 D takes an e4m3 A", {.weights = {}, .x = DType::fp16, .d = DType::e4m3}},
      {"only an e4m3 A has scales", {.weights = {}, .x = DType::fp16, .scale_x = ScaleMode::vector}},
      {"D must be fp16, bf16, fp32 or e4m3", {.d = DType::e5m2}},
      {"scale_d must be none or tensor: one for all of D", {.d = DType::e4m3, .scale_d = ScaleMode::vector}},
      {"scale_d is for an e4m3 D", {.scale_d = ScaleMode::tensor}},
      {"rows of A have one scale each, or one for all, or none", {.scale_x = ScaleMode::block}},
      {"bias must be bf16, fp16 or fp32", {.bias = Bias::column, .bias_type = DType::e4m3}},
      {"tile_m must be a multiple of 8", {.tokens = 28}},
      {"tile_n must be 64, 128, 192 or 256", {.strips = 5}},
      {"gated, tile_n must be 128 or 256: as many strips of the gate as of up", {.gated = true, .strips = 3}},
      {"k_groups must be in 1..4", {.strips = 1, .k_groups = 5}},
      {"a CTA has room for 4 math warpgroups", {.strips = 4, .k_groups = 2}},
      {"the sums of so many rows leave too few registers: take a smaller tile_m or fewer k_groups",
       {.tokens = 88, .strips = 4}},
      {"cluster_k must be in 1..8", {.parts = 9}},
      {"stages must be in 2..32", {.stages = 33}},
      {"stages must be more than k_groups: each waits for a tile and holds one",
       {.strips = 1, .k_groups = 4, .stages = 4}},
      {"stages must be a multiple of k_groups: who waits for a stage must have seen all its phases",
       {.strips = 1, .k_groups = 4, .stages = 18}},
      {"the rings need more than 227 KB of shared memory", {.tokens = 64, .stages = 12}},
  };
  return kAll;
}

TEST(strip_config, every_rule_has_a_config_that_breaks_it) {
  expect_all_rules_broken(broken_configs(), StripConfig{}, "/sluice/spec/strip.h");
}

TEST(strip_config, registers_that_move_are_there) {
  for (const DType x : {DType::e4m3, DType::fp16})
    for (const int strips : {1, 2, 3, 4})
      for (int tokens = 8; tokens <= most_strip_tokens(x, strips); tokens += 8) {
        const StripConfig c{.x = x, .tokens = tokens, .strips = strips};
        ASSERT_LE(tokens, 128 * strips) << "a math thread fetches each token's scale";
        if (!moves_registers(c)) continue;
        ASSERT_EQ(threads_of(c) % 128, 0) << "registers move by warpgroups";
        ASSERT_LE(strips * math_registers(c) + kStripLoadRegisters,
                  (strips + 1) * most_registers(threads_of(c), 1))
            << "what the threads have at launch is all there is";
        ASSERT_GT(math_registers(c), most_registers(threads_of(c) - 64, 1)) << "more than without";
      }
}

TEST(strip_config, parts_of_shared_memory_lie_where_they_must) {
  int checked = 0, halves = 0;
  for (const int group : {0, 32, 64, 128})
    for (const DType scale : {DType::fp16, DType::fp32})
      for (const ScaleZero zero : {ScaleZero::none, ScaleZero::per_group})
        for (int tokens = 8; tokens <= 192; tokens += 8)
          for (const int strips : {1, 2, 3, 4})
            for (const int k_groups : {1, 2, 3, 4})
              for (const int parts : {1, 2, 3, 4, 5, 8})
                for (const int stages : {2, 4, 6, 16}) {
                  const bool half =
                      (checked + tokens + stages) % 3 == 0;  // 16-bit tokens in every third case
                  const StripConfig c{.weights = {.group = group,
                                                  .scale = scale,
                                                  .zero = zero,
                                                  .order = half ? FragmentOrder::half : FragmentOrder::byte},
                                      .x = half ? DType::bf16 : DType::e4m3,
                                      .tokens = tokens,
                                      .strips = strips,
                                      .k_groups = k_groups,
                                      .parts = parts,
                                      .stages = stages};
                  if (validate(c) != nullptr) continue;
                  ++checked;
                  halves += half;
                  ASSERT_EQ(x_stage_bytes(c), tokens * 128 * bytes_of(c.x));
                  ASSERT_EQ(x_stage_bytes(c) % 1024, 0) << "the swizzle repeats after 1 KB";
                  ASSERT_EQ(w_ring_offset(c) % 128, 0);
                  ASSERT_EQ(w_stage_bytes(c) % 128, 0);
                  ASSERT_GE(incoming_offset(c), w_ring_offset(c) + stages * w_stage_bytes(c));
                  ASSERT_GE(incoming_offset(c), sums_bytes(c))
                      << "what others send is not overwritten by sums";
                  ASSERT_EQ(incoming_offset(c) % 16, 0);
                  ASSERT_EQ(vector_offset(c) % 16, 0);
                  ASSERT_EQ(barrier_offset(c) % 8, 0);
                  ASSERT_LE(smem_bytes(c), kMaxSmemBytes);
                  // The tile is divided in units of four rows, as in the kernel.
                  const int quads = tile_rows(c) / 4 * tokens;
                  for (int part = 0; part < parts; ++part) {
                    const int share = (part + 1) * quads / parts - part * quads / parts;
                    ASSERT_LE((parts - 1) * 16 * share, incoming_bytes(c) + (parts == 1 ? share * 16 : 0));
                  }
                }
  EXPECT_GT(checked, 1000);
  EXPECT_GT(halves, 200);
}

}  // namespace
}  // namespace sluice::test
