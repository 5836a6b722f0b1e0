// SPDX-License-Identifier: Apache-2.0
// Random interleavings of scenarios that are too large to enumerate: clusters up to 4x2, rings of real depth,
// every warp separate. A failure prints its seed; docs/host-twin.md tells how to run it again.
#include "scenarios.h"

namespace sluice::twin {
namespace {

Exploration explore_some(const Shape& shape, const RandomSearch& search) {
  Exploration found = explore_random(record_gemm(make(shape)), search);
  expect_clean(found, shape);
  return found;
}

TEST(random, both_schedules_all_small_clusters_all_ring_relations) {
  i64 schedules = 0, transitions = 0;
  for (Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (ClusterShape cluster : {ClusterShape{1, 1}, {2, 1}, {1, 2}, {2, 2}})
      for (int stages : {2, 3, 5})
        for (int k_tiles : {0, 1, stages - 1, stages, stages + 1, 3 * stages + 2}) {
          const Exploration found = explore_some({.schedule = schedule,
                                                  .stages = stages,
                                                  .k_tiles = k_tiles,
                                                  .rows = 3,
                                                  .columns = 1 + stages % 2,
                                                  .cluster = cluster,
                                                  .clusters = 2,
                                                  .chunks = 1 + k_tiles % 3},
                                                 {.seed = 1, .schedules = 30});
          schedules += found.schedules;
          transitions += found.transitions;
        }
  std::printf("             %lld interleavings, %lld steps\n", schedules, transitions);
  EXPECT_GE(schedules, 5000);
}

TEST(random, promotion_block_scales_batches_and_direct_stores_in_clusters) {
  for (ClusterShape cluster : {ClusterShape{2, 1}, {1, 2}, {2, 2}}) {
    explore_some({.stages = 3, .k_tiles = 5, .rows = 3, .batch = 2, .cluster = cluster, .promotes = true},
                 {.seed = 7, .schedules = 100});
    for (bool each_column : {false, true})
      for (bool two_units : {false, true})
        explore_some({.schedule = Schedule::cooperative,
                      .stages = 3,
                      .k_tiles = 5,
                      .rows = 3,
                      .batch = 2,
                      .cluster = cluster,
                      .block_scales = true,
                      .each_column = each_column,
                      .two_units = two_units},
                     {.seed = 8, .schedules = 100});
    explore_some({.schedule = Schedule::cooperative,
                  .stages = 4,
                  .k_tiles = 6,
                  .rows = 3,
                  .cluster = cluster,
                  .clusters = 3,
                  .store = StorePath::direct},
                 {.seed = 11, .schedules = 100});
  }
}

TEST(random, a_cluster_of_eight) {
  for (ClusterShape cluster : {ClusterShape{4, 2}, {2, 4}, {8, 1}})
    explore_some({.stages = 4,
                  .k_tiles = 7,
                  .rows = 2,
                  .columns = 2,
                  .cluster = cluster,
                  .chunks = cluster.m == 8 ? 2 : 1,
                  .store = StorePath::tma},
                 {.seed = 3, .schedules = 30});
}

TEST(random, every_warp_of_the_math_groups_on_its_own) {
  i64 states = 0;
  for (Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (ClusterShape cluster : {ClusterShape{1, 1}, {2, 1}, {2, 2}})
      states += explore_some({.schedule = schedule,
                              .stages = 3,
                              .k_tiles = 4,
                              .rows = 5,
                              .cluster = cluster,
                              .chunks = 3,
                              .warps_per_group = kMathWarps},
                             {.seed = 5, .schedules = 60, .count_states = true})
                    .states;
  std::printf("             %lld distinct states\n", states);
  EXPECT_GE(states, 100'000);
}

TEST(random, rings_as_deep_as_real_ones) {
  const Shape real{.k_tiles = 64, .rows = 5, .columns = 3, .cluster = {2, 1}, .clusters = 2};
  Shape deepest = real, ping_pong = real, cooperative = real;
  deepest.stages = 16;
  ping_pong.stages = cooperative.stages = 7;
  ping_pong.chunks = cooperative.chunks = 2;
  cooperative.schedule = Schedule::cooperative;
  for (const Shape& shape : {deepest, ping_pong, cooperative})
    explore_some(shape, {.seed = 21, .schedules = 10});
}

TEST(random, the_same_seed_takes_the_same_way) {
  const Recording recording = record_gemm(make({.stages = 3, .k_tiles = 4, .rows = 3, .cluster = {2, 1}}));
  const RandomSearch search{.seed = 99, .schedules = 20, .count_states = true};
  const Exploration first = explore_random(recording, search), second = explore_random(recording, search);
  EXPECT_EQ(first.states, second.states);
  EXPECT_EQ(first.transitions, second.transitions);
  const Exploration other = explore_random(recording, {.seed = 1000, .schedules = 20, .count_states = true});
  EXPECT_NE(first.states, other.states);
}

}  // namespace
}  // namespace sluice::twin
