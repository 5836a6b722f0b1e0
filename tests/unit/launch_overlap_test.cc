// SPDX-License-Identifier: Apache-2.0
// Compares the overlap test with a count of bytes. It never misses a common byte, and column slices of one
// buffer do not count as overlapping. To see it fail: change `>` to `>=` in the last line of overlap(), or
// remove one half of that line.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include <sluice/run/ops/gemm.h>

namespace sluice::gemm {
namespace {

std::set<u64> bytes_of_placed(const Placed& x) {
  std::set<u64> bytes;
  for (i64 batch = 0; batch < x.memory.batches; ++batch)
    for (i64 row = 0; row < x.memory.rows; ++row)
      for (i64 byte = 0; byte < x.memory.row_bytes; ++byte)
        bytes.insert(x.address + batch * x.memory.batch_pitch + row * x.memory.row_pitch + byte);
  return bytes;
}

bool share_a_byte(const Placed& x, const Placed& y) {
  const std::set<u64> ours = bytes_of_placed(x);
  for (const u64 byte : bytes_of_placed(y))
    if (ours.count(byte) != 0) return true;
  return false;
}

TEST(launch_overlap, agrees_with_a_count_of_bytes_where_pitches_are_equal) {
  std::mt19937 random(7);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int shared = 0, apart = 0;
  for (int i = 0; i < 6000; ++i) {
    const int pitch = pick(4, 12);
    const auto place = [&] {
      const int rows = pick(1, 4);
      return Placed{static_cast<u64>(1000 + pick(0, 60)),
                    {.row_bytes = pick(1, pitch),
                     .rows = rows,
                     .row_pitch = pitch,
                     .batches = pick(1, 3),
                     .batch_pitch = pitch * (rows + pick(0, 2))}};
    };
    const Placed x = place(), y = place();
    const bool truth = share_a_byte(x, y), answer = overlap(x, y);
    // Rows that interleave without a common byte may be reported as overlapping. A common byte must always be
    // found.
    EXPECT_TRUE(answer || !truth) << i;
    shared += truth;
    apart += !answer;
  }
  EXPECT_GT(shared, 300);
  EXPECT_GT(apart, 300);
}

TEST(launch_overlap, never_misses_a_shared_byte_whatever_the_pitches) {
  std::mt19937 random(11);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int i = 0; i < 6000; ++i) {
    const auto place = [&] {
      return Placed{static_cast<u64>(1000 + pick(0, 40)),
                    {.row_bytes = pick(1, 8),
                     .rows = pick(1, 4),
                     .row_pitch = pick(0, 12),
                     .batches = pick(1, 3),
                     .batch_pitch = pick(0, 30)}};
    };
    const Placed x = place(), y = place();
    if (share_a_byte(x, y)) {
      EXPECT_TRUE(overlap(x, y) && overlap(y, x)) << i;
    }
  }
}

TEST(launch_overlap, knows_column_slices_and_neighbours) {
  const Footprint half{.row_bytes = 64, .rows = 10, .row_pitch = 128};
  EXPECT_FALSE(overlap({1024, half}, {1024 + 64, half}));
  EXPECT_FALSE(overlap({1024 + 64, half}, {1024, half}));
  EXPECT_TRUE(overlap({1024, half}, {1024 + 63, half}));
  EXPECT_TRUE(overlap({1024, half}, {1024 + 65, half})) << "its end is the next row's start";
  const Footprint flat{.row_bytes = 100};
  EXPECT_FALSE(overlap({1000, flat}, {1100, flat}));
  EXPECT_FALSE(overlap({1100, flat}, {1000, flat}));
  EXPECT_TRUE(overlap({1000, flat}, {1099, flat}));
  const Footprint gap{.row_bytes = 16};
  EXPECT_FALSE(overlap({1024, half}, {1024 + 64, gap})) << "a vector in the gap between two rows";
}

}  // namespace
}  // namespace sluice::gemm
