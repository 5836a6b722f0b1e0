// SPDX-License-Identifier: Apache-2.0
// Small scenarios of kernels/gemm.cuh in every interleaving. One wrong wait, count or parity in the kernel
// makes them fail (mutants_test.cc).
#include <cstdio>

#include "scenarios.h"

namespace sluice::twin {
namespace {

#ifdef __SANITIZE_ADDRESS__
// With sanitizers, states take fifteen times longer, so only some are visited; enough to find invalid
// accesses.
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr i64 kMaxStates = kSanitized ? 100'000 : 6'000'000;

/// Visits every reachable state and returns their number.
i64 explore_completely(const Shape& shape) {
  const Exploration found = explore_all(record_gemm(make(shape)), {.max_states = kMaxStates});
  expect_clean(found, shape);
  EXPECT_TRUE(found.complete || kSanitized) << text_of(shape) << ": more than " << found.states << " states";
  return found.states;
}

void report(i64 states) {
  testing::Test::RecordProperty("states", std::to_string(states));
  std::printf("             %lld distinct states, each explored\n", states);
}

constexpr Schedule kSchedules[] = {Schedule::ping_pong, Schedule::cooperative};

TEST(exhaustive, one_cta_every_relation_of_k_tiles_and_stages) {
  i64 states = 0;
  for (Schedule schedule : kSchedules)
    for (int stages : {2, 3})
      for (int k_tiles : {0, 1, stages - 1, stages, stages + 1, 2 * stages, 2 * stages + 1})
        for (int rows : {1, 2, 3})
          states +=
              explore_completely({.schedule = schedule, .stages = stages, .k_tiles = k_tiles, .rows = rows});
  report(states);
}

TEST(exhaustive, one_cta_odd_chunks_promotion_block_scales_batch_and_direct_stores) {
  i64 states = 0;
  for (Schedule schedule : kSchedules) {
    states += explore_completely({.schedule = schedule, .k_tiles = 1, .rows = 3, .chunks = 2});
    states += explore_completely({.schedule = schedule, .k_tiles = 2, .rows = 2, .chunks = 3});
    states += explore_completely({.schedule = schedule, .k_tiles = 3, .rows = 1, .columns = 3, .batch = 2});
    states += explore_completely({.schedule = schedule, .k_tiles = 3, .rows = 5, .store = StorePath::direct});
    for (StorePath store : {StorePath::tma, StorePath::direct})
      states += explore_completely({.schedule = schedule,
                                    .k_tiles = 2,
                                    .rows = 3,
                                    .scale_vectors = true,
                                    .chunks = 2,
                                    .store = store});
    for (int k_tiles : {0, 1, 2, 5}) {
      states += explore_completely(
          {.schedule = schedule, .stages = 3, .k_tiles = k_tiles, .rows = 3, .promotes = true});
      states +=
          explore_completely({.schedule = schedule, .k_tiles = k_tiles, .rows = 2, .block_scales = true});
      states +=
          explore_completely({.schedule = schedule, .k_tiles = k_tiles, .rows = 2, .each_column = true});
    }
  }
  report(states);
}

TEST(exhaustive, one_cta_long_walks) {
  i64 states = 0;
  states += explore_completely({.stages = 4, .k_tiles = 9, .rows = 7});
  states += explore_completely({.schedule = Schedule::cooperative, .stages = 4, .k_tiles = 9, .rows = 5});
  states += explore_completely({.stages = 5, .k_tiles = 12, .rows = 3, .chunks = 2});
  states += explore_completely({.stages = 2, .k_tiles = 3, .rows = 9, .batch = 3, .clusters = 4});
  report(states);
}

TEST(exhaustive, a_cluster_of_two_sharing_b) {
  i64 states = 0;
  for (int k_tiles : {0, 1, 2})
    states += explore_completely({.stages = 2, .k_tiles = k_tiles, .rows = 2, .cluster = {2, 1}});
  states +=
      explore_completely({.schedule = Schedule::cooperative, .k_tiles = 3, .rows = 1, .cluster = {2, 1}});
  EXPECT_GE(states, kSanitized ? kMaxStates : 1'000'000);
  report(states);
}

TEST(exhaustive, a_cluster_of_two_sharing_a) {
  i64 states = 0;
  for (int k_tiles : {0, 1, 3})
    states += explore_completely({.stages = 2, .k_tiles = k_tiles, .rows = 2, .cluster = {1, 2}});
  states +=
      explore_completely({.schedule = Schedule::cooperative, .k_tiles = 2, .rows = 1, .cluster = {1, 2}});
  EXPECT_GE(states, kSanitized ? kMaxStates : 1'000'000);
  report(states);
}

TEST(exhaustive, every_warp_of_the_math_groups_on_its_own) {
  i64 states = 0;
  states += explore_completely({.k_tiles = 1, .rows = 2, .warps_per_group = kMathWarps});
  states += explore_completely({.k_tiles = 3, .rows = 1, .warps_per_group = kMathWarps});
  states += explore_completely(
      {.k_tiles = 3, .rows = 2, .store = StorePath::direct, .warps_per_group = kMathWarps});
  report(states);
}

TEST(exhaustive, says_when_a_limit_stopped_it) {
  const Exploration found =
      explore_all(record_gemm(make({.stages = 4, .k_tiles = 9, .rows = 5})), {.max_states = 1000});
  EXPECT_FALSE(found.complete);
  EXPECT_EQ(found.states, 1000);
}

}  // namespace
}  // namespace sluice::twin
