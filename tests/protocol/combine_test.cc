// SPDX-License-Identifier: Apache-2.0
// Peers of shared tiles: every order of arrival, in two consecutive launches. split_mutants_test.cc shows
// what makes these tests fail.
#include <sluice/twin/combine.h>

#include <cstdio>

#include "scenarios.h"

namespace sluice::twin {
namespace {

void report(const Exploration& found) {
  std::printf("             %lld states, %lld interleavings or ends\n", found.states, found.schedules);
}
Exploration combine(const Shape& shape, const CombineSearch& search = {}) {
  Exploration found = explore_combine(record_gemm(make(shape)), search);
  expect_clean(found, shape);
  return found;
}

TEST(combine, two_to_four_peers_in_every_order) {
  for (Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (int peers : {2, 3, 4})
      for (int warps : {1, 2}) {
        const Exploration found = combine(
            {.schedule = schedule, .k_tiles = peers, .rows = 2, .warps_per_group = warps, .slices = peers});
        EXPECT_TRUE(found.complete) << peers << " peers of " << warps << " warps";
        report(found);
      }
}

TEST(combine, two_peers_of_four_warps_in_every_order) {
  const Exploration found = combine({.k_tiles = 2, .rows = 1, .warps_per_group = kMathWarps, .slices = 2});
  EXPECT_TRUE(found.complete);
  report(found);
}

TEST(combine, uneven_slices) {
  for (Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (int k_tiles : {3, 4, 5}) {
      const Exploration found = combine({.schedule = schedule, .k_tiles = k_tiles, .rows = 3, .slices = 2});
      EXPECT_TRUE(found.complete);
      report(found);
    }
}

TEST(combine, clusters_of_ctas) {
  for (ClusterShape cluster : {ClusterShape{2, 1}, {1, 2}, {.k = 2}, {.k = 4}}) {
    const Exploration found = combine({.k_tiles = 9, .rows = 2, .cluster = cluster, .slices = 2});
    EXPECT_TRUE(found.complete);
    report(found);
  }
}

TEST(combine, many_peers_and_tiles_by_chance) {
  for (Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (int slices : {2, 3, 5})
      report(combine({.schedule = schedule,
                      .k_tiles = 16,
                      .rows = 3,
                      .columns = 2,
                      .warps_per_group = kMathWarps,
                      .slices = slices},
                     {.schedules = 100, .launches = 3}));
}

TEST(combine, says_when_a_limit_stopped_it) {
  EXPECT_FALSE(combine({.k_tiles = 4, .rows = 1, .slices = 4}, {.max_states = 20}).complete);
}

}  // namespace
}  // namespace sluice::twin
