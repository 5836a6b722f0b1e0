// SPDX-License-Identifier: Apache-2.0
// Splits along k: a launch multiplies every k-tile of every tile exactly once. Peers of a tile agree on their
// number and order, and no two partial sums share a slot. How this can fail: with `rest` left out of
// slice_begin (longer slices are first), a k-tile is left out. With slot = tile, two peers share a slot.
#include <map>
#include <random>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include <sluice/kernels/registry.h>
#include <sluice/spec/part_sums.h>
#include <sluice/device/pipeline.cuh>

namespace sluice {
namespace {

struct NoInts {
  int get(int) const { return 0; }
};
/// The members that TileCursor uses of a machine.
struct Walker {
  KernelConfig kernel;
  PhasedParams parameters{};
  int cluster = 0, clusters = 1, rank = 0;

  const KernelConfig& config() const { return kernel; }
  const GemmParams& params() const { return parameters; }
  int cluster_index() const { return cluster; }
  int cluster_count() const { return clusters; }
  int cta_rank() const { return rank; }
  GroupTable<NoInts> groups() const { return {}; }
};

using KTile = std::tuple<int, int, int, int>;  // m offset, n offset, batch, k-tile

struct Case {
  KernelConfig config;
  TileGrid grid;
  WorkSplit split;
};

Case random_case(std::mt19937& random) {
  const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  Case c;
  c.config.combine = Combine::last_arriver;
  c.config.schedule = below(2) == 0 ? Schedule::ping_pong : Schedule::cooperative;
  const int rows = 64 << below(3);
  c.config.tile = {rows, rows == 64 || below(2) == 0 ? 64 : 8 * (1 + below(32)), 64};
  c.config.cluster = kClusterSpace[below(kClusterSpaceSize)];
  c.grid = tile_grid(c.config, 1 + below(500), 1 + below(500), 1 + below(2000), 1 + below(2));
  c.split.raster = below(2) == 0 ? Raster::along_m : Raster::along_n;
  c.split.group = 1 + below(5);
  c.split.slices = 1 + (below(3) == 0 ? 0 : below(c.grid.k_tiles));
  c.split.clusters = c.split.slices == 1 ? 1 + below(140) : cluster_tiles(c.grid) * c.split.slices;
  return c;
}

TEST(spec_slices, every_k_tile_is_done_once_and_peers_agree) {
  std::mt19937 random(4);
  for (int i = 0; i < 3000; ++i) {
    const Case c = random_case(random);
    SCOPED_TRACE(testing::Message() << "case " << i << ": " << cluster_tiles(c.grid) << " tiles in "
                                    << c.split.slices << " slices, " << c.split.clusters << " clusters");
    Walker walker{.kernel = c.config, .clusters = c.split.clusters};
    walker.parameters.grid = c.grid;
    walker.parameters.raster = c.split.raster;
    walker.parameters.raster_group = c.split.group;
    walker.parameters.slices = slices_of(c.grid, c.split);
    std::map<KTile, int> done;
    std::map<std::tuple<int, int>, int> slots;  // (slot, rank) -> number of CTAs
    // Counter -> (number of peers, ranks that occurred).
    std::map<int, std::pair<int, std::set<int>>> counters;
    int least = 1 << 30, most = 0;
    for (walker.cluster = 0; walker.cluster < c.split.clusters; ++walker.cluster) {
      for (walker.rank = 0; walker.rank < cluster_size(c.config); ++walker.rank) {
        int ordinal = 0;
        for (TileCursor tiles(walker); tiles.valid(); tiles.advance(), ++ordinal) {
          ASSERT_EQ(tiles.ordinal, ordinal);
          const Tile tile = tiles.tile();
          for (int k = 0; k < tile.k_tiles; ++k)
            ++done[{tile.m_offset, tile.n_offset, tile.batch, tile.first_k_tile + k}];
          const Sharing& s = tile.sharing;
          ASSERT_EQ(s.peers, c.split.slices);
          if (s.peers == 1) continue;
          least = std::min(least, tile.k_tiles);
          most = std::max(most, tile.k_tiles);
          ASSERT_LT(s.slot + s.rank, slot_count(c.split));
          ++slots[{s.slot + s.rank, walker.rank}];
          auto& [peers, ranks] = counters[s.counter];
          if (ranks.empty()) peers = s.peers;
          ASSERT_EQ(peers, s.peers);
          ranks.insert(s.rank);
          ASSERT_LT(s.counter, tiles_in_slices(c.split));
        }
      }
    }
    const int rows = c.grid.rows * c.config.cluster.m, columns = c.grid.columns * c.config.cluster.n;
    ASSERT_EQ(done.size(), static_cast<size_t>(rows) * columns * c.grid.batch * c.grid.k_tiles);
    for (const auto& [k_tile, times] : done) ASSERT_EQ(times, 1);
    for (const auto& [slot, times] : slots) ASSERT_EQ(times, 1);
    for (const auto& [counter, seen] : counters)
      ASSERT_EQ(static_cast<int>(seen.second.size()), seen.first) << "counter " << counter;
    if (c.split.slices == 1 || c.config.cluster.k > 1) continue;  // clusters along k cut slices again
    ASSERT_LE(most - least, 1) << "slices must be equal but for one";
  }
}

TEST(spec_slices, longer_slices_are_first) {
  const Slices slices =
      slices_of({.rows = 3, .columns = 2, .batch = 1, .k_tiles = 21}, {.clusters = 24, .slices = 4});
  EXPECT_EQ(slice_begin(slices, 1), 6);
  EXPECT_EQ(slice_begin(slices, 2), 11);
  EXPECT_EQ(slice_begin(slices, 4), 21);
  const Slices none =
      slices_of({.rows = 1, .columns = 1, .batch = 1, .k_tiles = 0}, {.clusters = 4, .slices = 4});
  EXPECT_EQ(none.count, 1) << "nothing is cut where k is 0";
}

TEST(spec_slices, own_parts_cover_the_columns_of_a_tile) {
  KernelConfig c;
  c.tile.n = 128;
  c.cluster.k = 4;
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(own_part(c, {.n_offset = 256}, rank).n_offset, 256 + 32 * rank);
  EXPECT_EQ(own_columns(c), 32);
  c.cluster = {2, 1};
  EXPECT_EQ(own_part(c, {.n_offset = 256}, 1).n_offset, 256);
}

/// One CTA adds each sum in the slots, and one warpgroup each peer.
TEST(spec_slices, the_second_kernel_sums_every_part_once) {
  for (const KernelConfig& c : {KernelConfig{.tile = {128, 256, 64}, .cluster = {2, 1}},
                                KernelConfig{.schedule = Schedule::ping_pong, .tile = {128, 72, 64}},
                                KernelConfig{.tile = {256, 64, 64}, .cluster = {.k = 4}}}) {
    std::set<std::tuple<int, int, int, int, int>> seen;
    for (const int tiles : {5, 200}) {
      seen.clear();
      const auto [blocks, columns, summers] = sum_grid(c, tiles);
      EXPECT_EQ(blocks * kWaveRows * columns, i64{tiles} * peer_pitch(c));
      for (int i = 0; i < blocks; ++i) {
        const SumBlock at = sum_block(c, i, columns);
        EXPECT_TRUE(seen.insert({at.tile, at.cta_rank, at.part, at.wave, at.column}).second);
        EXPECT_TRUE(at.tile < tiles && at.cta_rank < cluster_size(c) && at.part < combined_parts(c) &&
                    at.wave < waves(c) && at.column + columns <= own_columns(c));
      }
    }
  }
  const KernelConfig one_block{.schedule = Schedule::ping_pong, .tile = {64, 8, 64}};
  EXPECT_EQ(sum_grid(one_block, 264).summers, 4);
  EXPECT_EQ(sum_grid(one_block, 265).summers, 2);
  EXPECT_EQ(sum_grid(one_block, 1024).summers, 2);
  EXPECT_EQ(sum_grid(one_block, 1025).summers, 1);
  EXPECT_EQ(sum_grid(one_block, 1025).columns, kSumColumns) << "no 16 of 8 columns";
  for (const int summers : {1, 2, 4})
    for (int peers = 1; peers < 70; ++peers) {
      int next = 0;
      for (int summer = 0; summer < summers; ++summer) {
        EXPECT_EQ(peers_of_summer(peers, summers, summer).begin, next);
        next = peers_of_summer(peers, summers, summer).end;
      }
      EXPECT_EQ(next, peers);
    }
}

TEST(spec_slices, the_workspace_holds_what_a_launch_needs_and_no_more) {
  KernelConfig c;
  c.combine = Combine::last_arriver;
  c.tile = {128, 256, 64};
  EXPECT_EQ(workspace_bytes(c, {.clusters = 132}), 0);
  EXPECT_EQ(workspace_bytes(c, {.clusters = 128, .slices = 2}),
            kWorkspaceCounterBytes + i64{128} * 128 * 256 * 4);
  EXPECT_EQ(counter_count(c, {.clusters = 128, .slices = 2}), 128) << "one for each math group's rows";
  c.combine = Combine::separate;
  EXPECT_EQ(counter_count(c, {.clusters = 128, .slices = 2}), 0) << "nobody is elected";
  c.combine = Combine::add;  // peers do not meet
  EXPECT_EQ(workspace_bytes(c, {.clusters = 128, .slices = 2}), 0);
  EXPECT_EQ(counter_count(c, {.clusters = 128, .slices = 2}), 0);
}

}  // namespace
}  // namespace sluice
