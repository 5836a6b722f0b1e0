// SPDX-License-Identifier: Apache-2.0
// The lanes of a warp that write sums to shared memory meet on no bank, in both layouts of
// device/epilogue/warp_sums.cuh. Seen to fail: with one pad for both.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include <sluice/spec/mixed.h>
#include <sluice/spec/plain.h>

namespace sluice {
namespace {

constexpr int kBanks = 32;

/// The most 32-bit words that lie on one bank.
int meetings(const std::vector<int>& words) {
  std::set<int> of_bank[kBanks];
  std::size_t most = 0;
  for (const int word : words) {
    of_bank[word % kBanks].insert(word);
    most = std::max(most, of_bank[word % kBanks].size());
  }
  return static_cast<int>(most);
}

/// Rows g of columns 2c: a word of each lane at once.
int meetings_of_rows(const WarpTile& t) {
  std::vector<int> words;
  for (int lane = 0; lane < 32; ++lane) words.push_back(lane % 4 * 2 * warp_sums_stride(t) + lane / 4);
  return meetings(words);
}
/// Rows 2c and 2c + 1 of column g: two words of each lane of half a warp at once.
int meetings_of_row_pairs(const WarpTile& t) {
  std::vector<int> words;
  for (int lane = 0; lane < 16; ++lane)
    for (int i = 0; i < 2; ++i) words.push_back(lane / 4 * warp_sums_stride(t) + lane % 4 * 2 + i);
  return meetings(words);
}

TEST(spec_warp_sums, of_packed_weights_meet_on_no_bank) {
  for (const int row_blocks : {2, 4, 8}) {
    EXPECT_EQ(meetings_of_rows(warp_tile(NarrowConfig{.token_blocks = 1, .row_blocks = row_blocks})), 1);
    for (const int token_blocks : {2, 4})
      EXPECT_EQ(meetings_of_row_pairs(
                    warp_tile(NarrowConfig{.token_blocks = token_blocks, .row_blocks = row_blocks})),
                1);
  }
}

TEST(spec_warp_sums, of_plain_products_meet_on_no_bank) {
  for (const int n : {16, 32, 64, 128}) {
    KernelConfig c;
    c.tile = {8, n, 64};
    c.warps = 4;
    EXPECT_EQ(meetings_of_rows(plain_tile(c)), 1) << n;
  }
}

}  // namespace
}  // namespace sluice
