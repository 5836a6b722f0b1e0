// SPDX-License-Identifier: Apache-2.0
// Splits along k: a launch multiplies every k-tile of every tile exactly once. Peers of a tile agree on their
// number and order, and no two partial sums use the same slot. To see it fail: leave `rest` out of run_begin,
// so that a k-tile is done twice; or let the slot be the first cluster, so that two tiles share one.
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
  c.split.streamed = below(cluster_tiles(c.grid) + 1);
  const int most = std::max(c.split.streamed * c.grid.k_tiles, 1);
  c.split.clusters = 1 + below(c.split.streamed == 0 ? 140 : std::min(most, 200));
  return c;
}

TEST(spec_streams, every_k_tile_is_done_once_and_peers_agree) {
  std::mt19937 random(4);
  for (int i = 0; i < 3000; ++i) {
    const Case c = random_case(random);
    SCOPED_TRACE(testing::Message() << "case " << i << ": " << c.split.streamed << " of "
                                    << cluster_tiles(c.grid) << " tiles streamed to " << c.split.clusters);
    Walker walker{.kernel = c.config, .clusters = c.split.clusters};
    walker.parameters.grid = c.grid;
    walker.parameters.raster = c.split.raster;
    walker.parameters.raster_group = c.split.group;
    walker.parameters.deal = deal_of(c.grid, c.split);
    std::map<KTile, int> done;
    std::map<std::tuple<int, int>, int> slots;  // (slot, rank) -> number of CTAs
    // Counter -> (number of peers, ranks that occurred).
    std::map<int, std::pair<int, std::set<int>>> counters;
    int least = 1 << 30, most = 0;
    for (walker.cluster = 0; walker.cluster < c.split.clusters; ++walker.cluster) {
      int run = 0;
      for (walker.rank = 0; walker.rank < cluster_size(c.config); ++walker.rank) {
        int ordinal = 0;
        for (TileCursor tiles(walker); tiles.valid(); tiles.advance(), ++ordinal) {
          ASSERT_EQ(tiles.ordinal, ordinal);
          const Tile tile = tiles.tile();
          for (int k = 0; k < tile.k_tiles; ++k)
            ++done[{tile.m_offset, tile.n_offset, tile.batch, tile.first_k_tile + k}];
          const Sharing& s = tile.sharing;
          if (s.peers == 1) continue;
          ASSERT_LT(s.slot + s.rank, slot_count(c.split));
          ++slots[{s.slot + s.rank, walker.rank}];
          auto& [peers, ranks] = counters[s.counter];
          if (ranks.empty()) peers = s.peers;
          ASSERT_EQ(peers, s.peers);
          ranks.insert(s.rank);
          ASSERT_LT(s.counter, c.split.streamed);
        }
      }
      if (c.split.streamed > 0) {
        run = run_begin(walker.parameters.deal, walker.cluster + 1) -
              run_begin(walker.parameters.deal, walker.cluster);
        least = std::min(least, run);
        most = std::max(most, run);
      }
    }
    const int rows = c.grid.rows * c.config.cluster.m, columns = c.grid.columns * c.config.cluster.n;
    ASSERT_EQ(done.size(), static_cast<size_t>(rows) * columns * c.grid.batch * c.grid.k_tiles);
    for (const auto& [k_tile, times] : done) ASSERT_EQ(times, 1);
    for (const auto& [slot, times] : slots) ASSERT_EQ(times, 1);
    for (const auto& [counter, seen] : counters)
      ASSERT_EQ(static_cast<int>(seen.second.size()), seen.first) << "counter " << counter;
    if (c.split.streamed == 0) continue;
    ASSERT_LE(most - least, 1) << "runs must be equal but for one";
  }
}

/// With sizes near 2^31, which would take too long to enumerate, compares the ends of runs with 64-bit
/// arithmetic. To see it fail: let stream_problem() of streams.cc accept more slots than an int can count.
TEST(spec_streams, deals_of_almost_2_to_31_k_tiles_are_the_same_in_64_bits) {
  std::mt19937 random(6);
  const auto below = [&](i64 limit) { return static_cast<int>(random() % static_cast<u64>(limit)); };
  constexpr i64 kMost = (i64{1} << 31) - 1;
  for (int i = 0; i < 200'000; ++i) {
    const int k_tiles = 1 + below(i % 3 == 0 ? 1 << 25 : i % 3 == 1 ? 5000 : 40);
    const TileGrid grid{.k_tiles = k_tiles};
    const i64 most_tiles = kMost / k_tiles;
    WorkSplit split{.streamed = static_cast<int>(i % 2 == 0 ? most_tiles : 1 + below(most_tiles))};
    const i64 total = i64{split.streamed} * k_tiles, most_clusters = std::min(total, kMost - split.streamed);
    if (most_clusters < 1) continue;
    split.clusters = static_cast<int>(
        i % 5 == 0 ? most_clusters : 1 + below(std::min(most_clusters, i64{i % 5 == 1 ? 200 : kMost})));
    ASSERT_LE(slot_count(split), kMost);
    const Deal deal = deal_of(grid, split);
    const auto begin = [&](i64 cluster) {
      return cluster * (total / split.clusters) + std::min(cluster, total % split.clusters);
    };
    const int cluster = i % 7 == 0 ? split.clusters - 1 : below(split.clusters);
    ASSERT_EQ(run_begin(deal, cluster), begin(cluster));
    ASSERT_EQ(run_begin(deal, cluster + 1), begin(i64{cluster} + 1));
    for (const i64 k_tile : {begin(cluster), begin(i64{cluster} + 1) - 1}) {
      ASSERT_EQ(cluster_of(deal, static_cast<int>(k_tile)), cluster);
      const int tile = static_cast<int>(k_tile / k_tiles);
      const Sharing sharing = sharing_of(grid, deal, tile, cluster);
      ASSERT_GE(sharing.rank, 0);
      ASSERT_LT(sharing.rank, sharing.peers);
      ASSERT_LT(i64{sharing.slot} + sharing.rank, slot_count(split));
      ASSERT_GE(sharing.slot, 0);
    }
  }
}

TEST(spec_streams, a_split_into_equal_parts_cuts_every_tile_at_the_same_places) {
  const TileGrid grid{.rows = 3, .columns = 2, .batch = 1, .k_tiles = 21};
  const WorkSplit split{.clusters = 6 * 4, .streamed = 6};
  const Deal deal = deal_of(grid, split);
  for (int tile = 0; tile < 6; ++tile)
    for (int part = 0; part < 4; ++part) {
      const Sharing s = sharing_of(grid, deal, tile, tile * 4 + part);
      EXPECT_GE(s.peers, 4);
      EXPECT_LE(s.peers, 5) << "21 is no multiple of 4, so a run may reach into the next tile";
    }
}

TEST(spec_streams, own_parts_cover_the_columns_of_a_tile) {
  KernelConfig c;
  c.tile.n = 128;
  c.cluster.k = 4;
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(own_part(c, {.n_offset = 256}, rank).n_offset, 256 + 32 * rank);
  EXPECT_EQ(own_columns(c), 32);
  c.cluster = {2, 1};
  EXPECT_EQ(own_part(c, {.n_offset = 256}, 1).n_offset, 256);
}

/// In the second kernel, one CTA adds the partial sums of each slot, and one warpgroup those of each peer.
TEST(spec_streams, the_second_kernel_sums_every_part_once) {
  for (const KernelConfig& c : {KernelConfig{.tile = {128, 256, 64}, .cluster = {2, 1}},
                                KernelConfig{.schedule = Schedule::ping_pong, .tile = {128, 72, 64}},
                                KernelConfig{.tile = {256, 64, 64}, .cluster = {.k = 4}}}) {
    std::set<std::tuple<int, int, int, int, int>> seen;
    for (const int streamed : {5, 200}) {
      seen.clear();
      const auto [blocks, columns, summers] = sum_grid(c, streamed);
      EXPECT_EQ(blocks * kWaveRows * columns, i64{streamed} * peer_pitch(c));
      for (int i = 0; i < blocks; ++i) {
        const SumBlock at = sum_block(c, i, columns);
        EXPECT_TRUE(seen.insert({at.tile, at.cta_rank, at.part, at.wave, at.column}).second);
        EXPECT_TRUE(at.tile < streamed && at.cta_rank < cluster_size(c) && at.part < combined_parts(c) &&
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

TEST(spec_streams, the_workspace_holds_what_a_launch_needs_and_no_more) {
  KernelConfig c;
  c.combine = Combine::last_arriver;
  c.tile = {128, 256, 64};
  EXPECT_EQ(workspace_bytes(c, {.clusters = 132}), 0);
  EXPECT_EQ(workspace_bytes(c, {.clusters = 128, .streamed = 64}),
            kWorkspaceCounterBytes + i64{191} * 128 * 256 * 4);
  EXPECT_EQ(counter_count(c, {.clusters = 128, .streamed = 64}), 128) << "one for each math group's rows";
  c.combine = Combine::separate;
  EXPECT_EQ(counter_count(c, {.clusters = 128, .streamed = 64}), 0) << "nobody is elected";
  c.combine = Combine::add;  // peers do not meet
  EXPECT_EQ(workspace_bytes(c, {.clusters = 128, .streamed = 64}), 0);
  EXPECT_EQ(counter_count(c, {.clusters = 128, .streamed = 64}), 0);
}

}  // namespace
}  // namespace sluice
