// SPDX-License-Identifier: Apache-2.0
// TMA loads exactly the bytes that the load thread expects, and these include every row of the matrix. To see
// it fail: let tail_rows round down, or count whole slices from the extent only.
#include <algorithm>

#include <gtest/gtest.h>

#include <sluice/spec/loaded_rows.h>

namespace sluice {
namespace {

TEST(loaded_rows, of_every_slice_cover_what_is_inside_and_bring_something) {
  for (int extent = 1; extent < 600; ++extent)
    for (const int rows : {8, 24, 64, 128, 208})
      for (int first = 0; first < extent + 2 * rows; first += rows) {
        const int loaded = slice_rows(extent, first, rows),
                  inside = std::max(0, std::min(rows, extent - first));
        ASSERT_GE(loaded, std::max(inside, kLoadRows));
        ASSERT_LE(loaded, rows);
        ASSERT_EQ(loaded % kLoadRows, 0);
        if (inside > 0) {
          ASSERT_LT(loaded, inside + kLoadRows);
        }
        // Full slices use one tensor map, shortened ones a second.
        ASSERT_TRUE(loaded == rows || loaded == tail_rows(extent, rows)) << extent << " " << rows;
      }
}

TEST(loaded_rows, of_all_slices_are_what_the_load_thread_expects) {
  for (const ClusterShape cluster : {ClusterShape{1, 1}, {2, 1}, {1, 2}, {1, 4}})
    for (int m = 1; m < 700; m += 3) {
      const KernelConfig c{.tile = {128, 192, 64}, .cluster = cluster};
      for (int tile_row = 0; tile_row < 7; ++tile_row) {
        const Tile tile{.m_offset = tile_row * c.tile.m};
        const int rows = c.tile.m / cluster.n;
        int bytes = 0;
        for (int slice = 0; slice < cluster.n; ++slice)
          bytes += slice_rows(m, tile.m_offset + slice * rows, rows) * kSwizzleRowBytes;
        ASSERT_EQ(bytes, loaded_bytes_a(c, m, tile)) << m << " " << tile_row;

        const Tile across{.n_offset = tile_row * c.tile.n};
        const int columns = c.tile.n / cluster.m;
        int bytes_b = 0;
        for (int slice = 0; slice < cluster.m; ++slice)
          bytes_b += slice_rows(m, across.n_offset + slice * columns, columns) * kSwizzleRowBytes;
        ASSERT_EQ(bytes_b, loaded_bytes_b(c, m, across)) << m << " " << tile_row;
      }
    }
}

TEST(loaded_rows, mn_major_operands_are_loaded_in_blocks_that_reach_into_the_matrix) {
  const KernelConfig c{.tile = {128, 128, 64}, .a_major = Major::mn, .b_major = Major::mn};
  const int block = kMnBlock * kSwizzleRowBytes;
  EXPECT_EQ(loaded_bytes_a(c, 5, {}), block);
  EXPECT_EQ(loaded_bytes_a(c, 64, {}), block);
  EXPECT_EQ(loaded_bytes_a(c, 65, {}), 2 * block);
  EXPECT_EQ(loaded_bytes_a(c, 1000, {}), stage_a_bytes(c));
  EXPECT_EQ(loaded_bytes_a(c, 100, {.m_offset = 128}), block) << "a tile outside brings one";
  EXPECT_EQ(loaded_bytes_b(c, 320, {.n_offset = 256}), block);
  const KernelConfig k_major{.tile = {128, 128, 64}};
  EXPECT_EQ(loaded_bytes_b(k_major, 5, {}), 8 * kSwizzleRowBytes);
}

}  // namespace
}  // namespace sluice
