// SPDX-License-Identifier: Apache-2.0
// Rules of narrow and wide configs, formats and slices: for each rule a case breaks it, and the message names
// it. To see it fail: leave out a case, or swap two rules of validate().
#include <sluice/spec/packed.h>
#include <sluice/spec/packed_slices.h>
#include <sluice/spec/wide.h>

#include "rule_cases.h"

namespace sluice::test {
namespace {

TEST(packed_rules, each_narrow_one_has_a_config_that_breaks_it) {
  expect_all_rules_broken<NarrowConfig>(
      {
          {"a 16-bit A takes weights in the order half", {.weights = {.order = FragmentOrder::byte}}},
          {"A must be fp16 or bf16", {.x = DType::e4m3}},
          {"D must be fp16, bf16 or fp32", {.d = DType::e4m3}},
          {"bias must be bf16, fp16 or fp32", {.bias = Bias::column, .bias_type = DType::e5m2}},
          {"tile_m must be 8, 16 or 32", {.token_blocks = 3}},
          {"tile_n must be 32, 64 or 128: half a strip, one or two", {.row_blocks = 6}},
          {"norm_a takes bf16 A in tiles of 8 rows (tile_m = 8)", {.norm_a = true}},
          {"norm_a takes bf16 A in tiles of 8 rows (tile_m = 8)",
           {.x = DType::bf16, .norm_a = true, .token_blocks = 2}},
          {"a gated product adds no residual", {.gated = true, .residual = true}},
          {"gated, tile_n must be 64 or 128: pairs of blocks of the gate, and as many of up",
           {.gated = true, .row_blocks = 2}},
          {"held_rows must be 0, or 1 or 4 with tile_m = 8", {.held_tokens = 2}},
          {"held_rows must be 0, or 1 or 4 with tile_m = 8", {.held_tokens = 4, .token_blocks = 2}},
          {"more than 16 blocks of 16 rows x 8 tokens do not fit in registers",
           {.token_blocks = 4, .row_blocks = 8}},
          {"packed weights have no groups along k", {.groups = {GroupKind::along_k, 128}}},
          {"groups.most must be in 1..1024", {.groups = {GroupKind::ends, 1025}}},
          {"groups have neither norm_a nor a residual", {.residual = true, .groups = {GroupKind::ends, 128}}},
          {"held_rows must be 0: any group may have all rows",
           {.held_tokens = 1, .groups = {GroupKind::ends, 128}}},
          {"groups read their table before weights: wait = weights_first must be another",
           {.overlap = {.wait = Wait::weights_first}, .groups = {GroupKind::counts, 128}}},
          {"the rings are smaller than the table of groups: more stages or warps, or fewer groups",
           {.row_blocks = 2, .warps = 1, .stages = 2, .groups = {GroupKind::ends, 1024}}},
          {"warps must be in 1..16", {.warps = 17}},
          {"stages must be in 2..16", {.stages = 1}},
          {"cluster_k must be 1, 2, 4 or 8", {.parts = 3}},
          {"an SM holds 64 warps", {.warps = 8, .ctas = 9}},
          {"the rings need more than 227 KB of shared memory", {.row_blocks = 8, .warps = 16, .stages = 16}},
          {"so many CTAs need more than 228 KB of an SM", {.warps = 8, .stages = 4, .ctas = 2}},
      },
      NarrowConfig{}, "/sluice/spec/packed.h");
}

TEST(packed_rules, each_wide_one_has_a_config_that_breaks_it) {
  expect_all_rules_broken<WideConfig>(
      {
          {"a 16-bit A takes weights in the order half", {.weights = {.order = FragmentOrder::byte}}},
          {"A must be fp16 or bf16", {.x = DType::e4m3}},
          {"D must be fp16, bf16 or fp32", {.d = DType::e4m3}},
          {"bias must be bf16, fp16 or fp32", {.bias = Bias::column, .bias_type = DType::e5m2}},
          {"tile_m must be a multiple of 8 in 8..256", {.tokens = 264}},
          {"cluster_n must be 1 or 2", {.cluster_n = 4}},
          {"stages must be in 2..16", {.x_stages = 17}},
          {"w_stages must be in 1..16", {.w_stages = 0}},
          {"tile_m must be a multiple of 8 for each CTA of the cluster", {.tokens = 136, .cluster_n = 2}},
          {"the rings need more than 227 KB of shared memory", {.tokens = 256, .x_stages = 8}},
      },
      WideConfig{}, "/sluice/spec/wide.h");
}

TEST(packed_rules, copies_of_wide_tiles_have_whole_swizzles_and_end_with_their_tile) {
  int checked = 0;
  for (int tokens = 8; tokens <= kWideMostTokens; tokens += 8)
    for (const int cluster_n : {1, 2}) {
      const WideConfig c{.tokens = tokens, .cluster_n = cluster_n, .x_stages = 3, .w_stages = 2};
      if (validate(c) != nullptr) continue;
      ++checked;
      ASSERT_EQ(x_stage_bytes(c) % 1024, 0) << "the swizzle repeats after 1 KB";
      ASSERT_EQ(tokens / cluster_n % 8, 0) << "so does a copy into a stage";
      ASSERT_EQ(tokens % store_tokens(c), 0) << "no copy to D reaches the next tile";
      ASSERT_EQ(store_tokens(c) % 8, 0);
      ASSERT_EQ(w_ring_offset(c) % 128, 0);
      ASSERT_LE(smem_bytes(c), kMaxSmemBytes);
    }
  EXPECT_EQ(checked, 32 + 16);
}

TEST(packed_rules, a_format_that_is_none_is_every_configs_fault) {
  const WeightFormat bad{.group = 48};
  EXPECT_EQ(validate(NarrowConfig{.weights = bad}), validate(bad));
  EXPECT_EQ(validate(WideConfig{.weights = bad}), validate(bad));
  EXPECT_NE(validate(bad), nullptr);
}

TEST(packed_rules, slices_lie_in_the_matrix_and_on_tiles) {
  const auto rule = [](SliceRange range, i64 extent, int unit) {
    const char* found = validate_slice(range, extent, unit);
    return std::string(found == nullptr ? "" : found);
  };
  EXPECT_EQ(rule({64, 200}, 200, kStripRows), "") << "the last one may end where the matrix does";
  EXPECT_EQ(rule({128, 128}, 200, kStripRows), "") << "empty";
  for (const SliceRange range : {SliceRange{-64, 64}, {128, 64}, {0, 256}})
    EXPECT_EQ(rule(range, 200, kStripRows), "a slice must lie in the matrix, with begin <= end");
  EXPECT_EQ(rule({32, 200}, 200, kStripRows), "a slice of rows must begin at a multiple of 64");
  EXPECT_EQ(rule({64, 200}, 200, kPackedTileK), "a slice of k must begin at a multiple of 128");
  EXPECT_NE(rule({0, 100}, 200, kStripRows), "");
}

}  // namespace
}  // namespace sluice::test
