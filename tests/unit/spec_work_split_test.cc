// SPDX-License-Identifier: Apache-2.0
// The raster: each CTA tile of D is computed by one CTA, once, for any grid, order, band and number of
// clusters. To see it fail: treat the last, narrower band as a full one (band_size = group in tile_at).
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <sluice/spec/work_split.h>

namespace sluice {
namespace {

constexpr ClusterShape kClusters[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {4, 2}, {2, 4}};

struct Walk {
  KernelConfig config;
  TileGrid grid;
  Raster raster = Raster::along_m;
  int group = 1;
  int clusters = 1;
};

/// Returns how often each CTA tile is computed; the first entry is -1 if a tile was out of bounds.
std::vector<int> done_by(const Walk& w) {
  const int rows = w.grid.rows * w.config.cluster.m, columns = w.grid.columns * w.config.cluster.n;
  std::vector<int> done(static_cast<std::size_t>(rows) * columns * w.grid.batch, 0);
  for (int cluster = 0; cluster < w.clusters; ++cluster)
    for (int index = cluster; index < cluster_tiles(w.grid); index += w.clusters)
      for (int rank = 0; rank < cluster_size(w.config); ++rank) {
        const Tile tile = tile_at(w.config, w.grid, w.raster, w.group, index, rank);
        const int row = tile.m_offset / w.config.tile.m, column = tile.n_offset / w.config.tile.n;
        const bool whole = tile.m_offset % w.config.tile.m == 0 && tile.n_offset % w.config.tile.n == 0;
        const bool inside = row >= 0 && row < rows && column >= 0 && column < columns && tile.batch >= 0 &&
                            tile.batch < w.grid.batch;
        if (!whole || !inside || tile.k_tiles != w.grid.k_tiles) return {-1};
        ++done[(static_cast<std::size_t>(tile.batch) * rows + row) * columns + column];
      }
  return done;
}

TEST(spec_work_split, every_tile_is_done_exactly_once) {
  std::mt19937 random(2026);
  const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  for (int i = 0; i < 120'000; ++i) {
    Walk w;
    w.config.tile = {64 << below(3), 8 * (1 + below(32)), 64};
    w.config.cluster = kClusters[below(std::size(kClusters))];
    const int m = below(w.config.tile.m * w.config.cluster.m * 6), n = below(w.config.tile.n * 9);
    const int k = below(1000), batch = 1 + below(3);
    w.grid = tile_grid(w.config, m, n, k, batch);
    w.raster = below(2) == 0 ? Raster::along_m : Raster::along_n;
    w.group = 1 + below(12);
    w.clusters = 1 + below(70);

    // The grid covers D, and every cluster tile is at least partly inside.
    ASSERT_GE(w.grid.rows * w.config.cluster.m * w.config.tile.m, m);
    ASSERT_LT((w.grid.rows - 1) * w.config.cluster.m * w.config.tile.m, std::max(m, 1));
    ASSERT_GE(w.grid.columns * w.config.cluster.n * w.config.tile.n, n);
    ASSERT_EQ(w.grid.k_tiles, (k + 63) / 64);
    for (const int times : done_by(w))
      ASSERT_EQ(times, 1) << "case " << i << ": grid " << w.grid.rows << "x" << w.grid.columns << "x"
                          << w.grid.batch << " cluster " << w.config.cluster.m << "x" << w.config.cluster.n
                          << " " << name_of(w.raster) << " group " << w.group;
  }
}

TEST(spec_work_split, an_empty_d_has_no_tiles) {
  const KernelConfig config;
  EXPECT_EQ(cluster_tiles(tile_grid(config, 0, 100, 100, 2)), 0);
  EXPECT_EQ(cluster_tiles(tile_grid(config, 100, 0, 100, 2)), 0);
  EXPECT_EQ(cluster_tiles(tile_grid(config, 100, 100, 100, 0)), 0);
  EXPECT_EQ(cluster_tiles(tile_grid(config, 100, 100, 0, 2)), 2);  // with k = 0, D must still be written
}

TEST(spec_work_split, walks_along_the_raster_inside_a_band) {
  KernelConfig config;
  config.tile = {64, 8, 64};
  const TileGrid grid{.rows = 3, .columns = 3, .batch = 1, .k_tiles = 1};
  // Bands of two rows: two tiles down, then the next column. The last band has one row. Expected numbers are
  // computed by hand.
  const int rows[] = {0, 1, 0, 1, 0, 1, 2, 2, 2}, columns[] = {0, 0, 1, 1, 2, 2, 0, 1, 2};
  for (int i = 0; i < 9; ++i) {
    const Tile m = tile_at(config, grid, Raster::along_m, 2, i, 0);
    EXPECT_EQ(m.m_offset, rows[i] * 64) << i;
    EXPECT_EQ(m.n_offset, columns[i] * 8) << i;
    const Tile n = tile_at(config, grid, Raster::along_n, 2, i, 0);  // mirrored
    EXPECT_EQ(n.m_offset, columns[i] * 64) << i;
    EXPECT_EQ(n.n_offset, rows[i] * 8) << i;
  }
}

TEST(spec_work_split, ranks_go_down_the_cluster_first) {
  KernelConfig config;
  config.tile = {128, 64, 64};
  config.cluster = {2, 2};
  const TileGrid grid = tile_grid(config, 1000, 1000, 64, 1);
  const Tile base = tile_at(config, grid, Raster::along_m, 4, 5, 0);
  for (int rank = 0; rank < 4; ++rank) {
    const Tile tile = tile_at(config, grid, Raster::along_m, 4, 5, rank);
    EXPECT_EQ(tile.m_offset - base.m_offset, rank % 2 * 128);
    EXPECT_EQ(tile.n_offset - base.n_offset, rank / 2 * 64);
  }
}

/// Returns the position of (row, column, batch) in the raster: the number of tiles before it, counted in 64
/// bits.
i64 index_of(const TileGrid& g, Raster raster, i64 group, i64 row, i64 column, i64 batch) {
  const i64 walk = raster == Raster::along_m ? row : column, other = raster == Raster::along_m ? column : row;
  const i64 walk_extent = raster == Raster::along_m ? g.rows : g.columns;
  const i64 other_extent = raster == Raster::along_m ? g.columns : g.rows;
  i64 index = batch * g.rows * g.columns, band_begin = 0;
  const i64 bands_before = walk / group;
  index += bands_before * group * other_extent;
  band_begin = bands_before * group;
  const i64 width = walk_extent - band_begin < group ? walk_extent - band_begin : group;
  return index + other * width + walk - band_begin;
}

TEST(spec_work_split, large_grids_do_not_overflow) {
  std::mt19937 random(7);
  KernelConfig config;
  config.tile = {64, 8, 64};
  for (int i = 0; i < 200'000; ++i) {
    TileGrid grid{.rows = 1 << random() % 21, .k_tiles = 1};
    grid.columns = static_cast<int>((i64{1} << 30) / grid.rows / (1 + random() % 3));
    grid.batch = static_cast<int>((i64{1} << 30) / (i64{grid.rows} * grid.columns));
    // Respects the limit of tile offsets in problem_checks.h.
    if (i64{grid.rows} * 64 > (i64{1} << 31) - 4096 || i64{grid.columns} * 8 > (i64{1} << 31) - 4096)
      continue;
    const Raster raster = random() % 2 == 0 ? Raster::along_m : Raster::along_n;
    const i64 other = raster == Raster::along_m ? grid.columns : grid.rows;
    const int group = static_cast<int>(1 + random() % std::min<i64>(64, ((i64{1} << 31) - 1) / other));
    const int index = static_cast<int>(random() % cluster_tiles(grid));
    const Tile t = tile_at(config, grid, raster, group, index, 0);
    ASSERT_EQ(index_of(grid, raster, group, t.m_offset / 64, t.n_offset / 8, t.batch), index)
        << grid.rows << "x" << grid.columns << "x" << grid.batch << " group " << group;
  }
}

}  // namespace
}  // namespace sluice
