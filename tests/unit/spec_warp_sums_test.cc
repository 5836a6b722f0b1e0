// SPDX-License-Identifier: Apache-2.0
// Lanes that write partial sums to shared memory have no bank conflicts, in both layouts of
// device/epilogue/warp_sums.cuh. Also the rows and reads of warpgroups. To see it fail: use the same padding
// for both layouts, or leave out plain_ring_bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include <sluice/plan.h>
#include <sluice/spec/packed.h>
#include <sluice/spec/plain.h>
#include <sluice/spec/validate.h>

namespace sluice {
namespace {

constexpr int kBanks = 32;

/// Returns the largest number of different words in one bank: 1 means no conflict.
int meetings(const std::vector<int>& words) {
  std::set<int> of_bank[kBanks];
  std::size_t most = 0;
  for (const int word : words) {
    of_bank[word % kBanks].insert(word);
    most = std::max(most, of_bank[word % kBanks].size());
  }
  return static_cast<int>(most);
}

/// A store of one word per lane, to rows g and columns 2c.
int meetings_of_rows(const WarpTile& t) {
  std::vector<int> words;
  for (int lane = 0; lane < 32; ++lane) words.push_back(lane % 4 * 2 * warp_sums_stride(t) + lane / 4);
  return meetings(words);
}
/// A store of two words per lane, to rows 2c and 2c + 1 of column g. Half of the warp stores at once.
int meetings_of_row_pairs(const WarpTile& t) {
  std::vector<int> words;
  for (int lane = 0; lane < 16; ++lane)
    for (int i = 0; i < 2; ++i) words.push_back(lane / 4 * warp_sums_stride(t) + lane % 4 * 2 + i);
  return meetings(words);
}

TEST(spec_warp_sums, of_packed_weights_meet_on_no_bank) {
  for (const int row_blocks : {2, 4, 8}) {
    for (const int held : {0, 1, 4})
      EXPECT_EQ(meetings_of_rows(warp_tile(
                    NarrowConfig{.held_tokens = held, .token_blocks = 1, .row_blocks = row_blocks})),
                1);
    for (const int token_blocks : {2, 4})
      EXPECT_EQ(meetings_of_row_pairs(
                    warp_tile(NarrowConfig{.token_blocks = token_blocks, .row_blocks = row_blocks})),
                1);
  }
}

TEST(spec_warp_sums, zeros_of_absent_tokens_lie_behind_the_rings_and_before_what_comes) {
  for (const int held : {1, 4})
    for (const int parts : {1, 8})
      for (const bool gated : {false, true}) {
        const NarrowConfig c{.gated = gated, .held_tokens = held, .parts = parts};
        ASSERT_EQ(validate(c), nullptr);
        EXPECT_EQ(zeros_offset(c) % 16, 0) << "ldmatrix reads 16 bytes";
        EXPECT_EQ(zeros_offset(c), c.warps * c.stages * stage_bytes(c));
        EXPECT_GE(incoming_offset(c), zeros_offset(c) + 16 * c.warps);
        EXPECT_EQ(stage_token_bytes(c), held * 256);
        EXPECT_EQ(used_columns(warp_tile(c)), gated && parts > 1 ? 8 : held);
      }
  EXPECT_EQ(used_columns(warp_tile(NarrowConfig{.token_blocks = 2})), 16);
}

TEST(spec_warp_sums, of_plain_products_meet_on_no_bank) {
  for (const int n : {16, 32, 64, 128}) {
    KernelConfig c;
    c.tile = {8, n, 64};
    c.warps = 4;
    EXPECT_EQ(meetings_of_rows(plain_tile(c)), 1) << n;
  }
}

/// In each slice of k, every row of the tile belongs to exactly one warp.
TEST(spec_warp_sums, of_warpgroups_hold_every_row_once_a_slice) {
  for (int n = 16; n <= 256; n += 16)
    for (const int warps : {4, 8, 16}) {
      KernelConfig c{.schedule = Schedule::plain_wgmma, .tile = {8, n, 64}, .warps = warps};
      const WarpTile tile = plain_tile(c);
      ASSERT_EQ(tile.warps * tile.beside, warps) << n;
      std::vector<int> holders(static_cast<size_t>(n) / 16);
      for (int warp = 0; warp < warps; ++warp)
        for (int block = 0; block < ceil_div(n / 16, tile.beside); ++block) {
          const int rows = tile.beside * block + warp % tile.beside;
          if (rows < n / 16) ++holders[static_cast<size_t>(rows)];
        }
      for (const int count : holders) EXPECT_EQ(count, tile.warps) << n << " rows, " << warps << " warps";
    }
}

/// WGMMA may read rows after the tile, but not after the CTA's shared memory. Its swizzle needs 1024 bytes of
/// alignment.
TEST(spec_plain, warpgroups_read_inside_of_their_memory) {
  int valid = 0;
  for (const int m : {8, 16, 32, 48, 64, 80, 96, 112, 128})
    for (int n = 16; n <= 256; n += 16)
      for (const int warps : {4, 8, 16})
        for (int stages = 2; stages <= 16; ++stages) {
          const KernelConfig c{.schedule = Schedule::plain_wgmma,
                               .tile = {m, n, 64},
                               .stages = stages,
                               .store = StorePath::direct,
                               .warps = warps};
          if (validate(c) != nullptr) continue;
          ++valid;
          const int last = (warps / 4 * stages - 1) * plain_stage_bytes(c);
          ASSERT_LE(last + ceil_div(n, 64) * 64 * 128, plain_smem_bytes(c)) << short_name(c);
          ASSERT_EQ(plain_stage_bytes(c) % 1024, 0) << short_name(c);
          ASSERT_GE(plain_incoming_offset(c), last + plain_stage_bytes(c)) << short_name(c);
        }
  EXPECT_GT(valid, 600);
}

/// Copies into another stage are right, and slow: no other test would see it.
TEST(spec_plain, stages_with_block_scales_are_whole_lines) {
  int valid = 0;
  for (const int m : {8, 16, 32, 64})
    for (const int n : {16, 32, 64, 128})
      for (const bool gated : {false, true}) {
        const KernelConfig c{.schedule = Schedule::plain,
                             .tile = {m, n, 128},
                             .stages = 3,
                             .a = DType::e4m3,
                             .b = DType::e4m3,
                             .store = StorePath::direct,
                             .epilogue = {.scale_a = ScaleMode::block,
                                          .scale_b = ScaleMode::block,
                                          .activation = gated ? Activation::silu : Activation::none,
                                          .gated = gated},
                             .warps = 4};
        if (validate(c) != nullptr) continue;
        ++valid;
        EXPECT_EQ(plain_stage_bytes(c) % kPlainRowBytes, 0) << short_name(c);
        EXPECT_GE(plain_stage_bytes(c) - plain_scales_offset(c), 4 * (m + plain_scale_parts(c)));
      }
  EXPECT_GT(valid, 10);
}

}  // namespace
}  // namespace sluice
