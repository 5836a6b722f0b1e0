// SPDX-License-Identifier: Apache-2.0
// Splits along k, in every interleaving where that is possible. One cluster, whose count as last arriver may
// end either way, and the exchange in clusters along k. combine_test.cc covers the peers of shared tiles.
#include <cstdio>

#include "scenarios.h"

namespace sluice::twin {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr i64 kMaxStates = kSanitized ? 100'000 : 6'000'000;
constexpr Schedule kSchedules[] = {Schedule::ping_pong, Schedule::cooperative};

i64 explore_completely(const Shape& shape) {
  const Exploration found = explore_all(record_gemm(make(shape)), {.max_states = kMaxStates});
  expect_clean(found, shape);
  EXPECT_TRUE(found.complete || kSanitized) << text_of(shape) << ": more than " << found.states << " states";
  return found.states;
}
i64 explore_some(const Shape& shape, const RandomSearch& search) {
  const Exploration found = explore_random(record_gemm(make(shape)), search);
  expect_clean(found, shape);
  return found.schedules;
}

TEST(split, every_tile_split_evenly) {
  i64 states = 0;
  for (Schedule schedule : kSchedules)
    for (int peers : {2, 3, 4})
      for (int rows : {1, 3})
        states +=
            explore_completely({.schedule = schedule, .k_tiles = peers + 1, .rows = rows, .slices = peers});
  std::printf("             %lld distinct states, each explored\n", states);
}

TEST(split, uneven_slices_of_any_length) {
  i64 states = 0;
  for (Schedule schedule : kSchedules)
    for (int slices : {2, 3, 5})
      for (int k_tiles : {5, 7, 11})
        for (int chunks : {1, 2, 3})
          states += explore_completely(
              {.schedule = schedule, .k_tiles = k_tiles, .rows = 2, .chunks = chunks, .slices = slices});
  std::printf("             %lld distinct states, each explored\n", states);
}

TEST(split, promotion_block_scales_and_direct_stores) {
  i64 states = 0;
  for (Schedule schedule : kSchedules) {
    const Shape shape{.schedule = schedule, .k_tiles = 3, .rows = 3, .slices = 2};
    Shape promoted = shape, scaled = shape, direct = shape;
    promoted.promotes = true;
    scaled.block_scales = true;
    direct.store = StorePath::direct;
    for (const Shape& each : {promoted, scaled, direct}) states += explore_completely(each);
  }
  std::printf("             %lld distinct states, each explored\n", states);
}

TEST(split, every_warp_on_its_own) {
  i64 states = 0;
  for (StorePath store : {StorePath::tma, StorePath::direct})
    states += explore_completely(
        {.k_tiles = 2, .rows = 1, .store = store, .warps_per_group = kMathWarps, .slices = 2});
  std::printf("             %lld distinct states, each explored\n", states);
}

/// A product without k-tiles, as with alpha = 0, has whole tiles and as many clusters as slices.
TEST(split, nothing_to_cut) {
  i64 states = 0;
  for (Schedule schedule : kSchedules)
    states += explore_completely({.schedule = schedule, .k_tiles = 0, .rows = 2, .slices = 2});
  std::printf("             %lld distinct states, each explored\n", states);
}

TEST(split, clusters_that_multicast_share_tiles_too) {
  i64 states = explore_completely({.k_tiles = 2, .rows = 1, .cluster = {2, 1}, .slices = 2});
  states += explore_completely({.k_tiles = 2, .rows = 1, .cluster = {1, 2}, .slices = 2});
  std::printf("             %lld distinct states, each explored\n", states);
}

TEST(split, a_pair_along_k) {
  i64 states = 0;
  for (Schedule schedule : kSchedules)
    for (int k_tiles : {0, 1, 2})
      states +=
          explore_completely({.schedule = schedule, .k_tiles = k_tiles, .rows = 1, .cluster = {.k = 2}});
  // Sums are exchanged in two passes.
  for (Schedule schedule : kSchedules)
    states +=
        explore_completely({.schedule = schedule, .k_tiles = 2, .rows = 1, .cluster = {.k = 2}, .chunks = 2});
  states += explore_completely({.k_tiles = 1, .rows = 2, .cluster = {.k = 2}});
  std::printf("             %lld distinct states, each explored\n", states);
}

/// A group whose rows are all outside of the matrix does not wait for its peers' sums.
TEST(split, a_pair_along_k_whose_second_group_has_few_rows_or_none) {
  i64 states = 0;
  for (int short_rows : {50, 64, 100})
    for (int rows : {1, 2})
      states += explore_completely({.schedule = Schedule::cooperative,
                                    .k_tiles = 0,
                                    .rows = rows,
                                    .cluster = {.k = 2},
                                    .store = StorePath::direct,
                                    .short_rows = short_rows});
  states += explore_completely({.schedule = Schedule::cooperative,
                                .k_tiles = 2,
                                .rows = 1,
                                .columns = 2,
                                .cluster = {.k = 2},
                                .store = StorePath::direct,
                                .short_rows = 100});
  std::printf("             %lld distinct states, each explored\n", states);
}

TEST(split, a_pair_along_k_that_shares_its_tile) {
  i64 states = 0;
  for (int k_tiles : {2, 3})
    states += explore_completely({.k_tiles = k_tiles, .rows = 1, .cluster = {.k = 2}, .slices = 2});
  std::printf("             %lld distinct states, each explored\n", states);
}

TEST(split, random_larger_splits) {
  i64 schedules = 0;
  for (Schedule schedule : kSchedules)
    for (ClusterShape cluster : {ClusterShape{1, 1}, {2, 1}, {1, 2}, {2, 2}})
      for (int slices : {2, 3, 7})
        for (int stages : {3, 5})
          for (int warps : {1, kMathWarps})
            schedules += explore_some({.schedule = schedule,
                                       .stages = stages,
                                       .k_tiles = 7,
                                       .rows = 3,
                                       .columns = 2,
                                       .cluster = cluster,
                                       .chunks = 1 + slices % 3,
                                       .warps_per_group = warps,
                                       .slices = slices},
                                      {.seed = 1, .schedules = 10});
  std::printf("             %lld interleavings\n", schedules);
}

TEST(split, random_clusters_along_k) {
  i64 schedules = 0;
  for (Schedule schedule : kSchedules)
    for (int ctas : {2, 4, 8})
      for (int k_tiles : {0, 1, 5, 17})
        for (int slices : {1, 3})
          for (int warps : {1, ctas < 8 ? 2 : 1, ctas < 4 ? kMathWarps : 1})
            schedules += explore_some({.schedule = schedule,
                                       .stages = 3,
                                       .k_tiles = k_tiles,
                                       .rows = 3,
                                       .cluster = {.k = ctas},
                                       .clusters = k_tiles > 1 ? 3 : 1,
                                       .chunks = ctas == 2 ? 2 : 1,
                                       .warps_per_group = warps,
                                       .short_rows = k_tiles == 5    ? 40
                                                     : k_tiles == 17 ? 100
                                                                     : 3,
                                       .slices = k_tiles > 1 ? slices : 1},
                                      {.seed = 1, .schedules = 6});
  std::printf("             %lld interleavings\n", schedules);
}

}  // namespace
}  // namespace sluice::twin
