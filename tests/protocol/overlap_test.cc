// SPDX-License-Identifier: Apache-2.0
// Dependent launches (spec/overlap.h). Loading weights before the wait must not break the ring, and steps
// that are forbidden before the wait must be detected. To see it fail: load A before the wait in
// kernels/gemm.cuh, or leave out the math role's wait.
#include <sluice/twin/local_rules.h>

#include "catching.h"
#include "overlap_mutants.h"

namespace sluice::twin {
namespace {

constexpr Overlap kFirst{.wait = Wait::first, .trigger = Trigger::at_start};
constexpr Overlap kWeightsFirst{.wait = Wait::weights_first, .trigger = Trigger::after_loads};

void explore_completely(Shape shape) {
  for (const Overlap overlap : {kFirst, kWeightsFirst}) {
    shape.overlap = overlap;
    const Exploration found = explore_all(record_gemm(make(shape)), {.max_states = 2'000'000});
    expect_clean(found, shape);
    EXPECT_TRUE(found.complete) << text_of(shape) << ": more than " << found.states << " states";
  }
}

TEST(overlap, every_relation_of_k_tiles_and_stages) {
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (const int stages : {2, 3})
      for (const int k_tiles : {0, 1, stages - 1, stages, stages + 1, 2 * stages + 1})
        for (const int rows : {1, 3})
          explore_completely({.schedule = schedule, .stages = stages, .k_tiles = k_tiles, .rows = rows});
}

TEST(overlap, clusters_scales_splits_and_idle_ctas) {
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative}) {
    explore_completely({.schedule = schedule, .k_tiles = 2, .rows = 1, .cluster = {2, 1}});
    explore_completely({.schedule = schedule, .k_tiles = 2, .rows = 1, .cluster = {1, 2}});
    explore_completely({.schedule = schedule, .k_tiles = 2, .rows = 1, .cluster = {1, 1, 2}});
    explore_completely({.schedule = schedule, .k_tiles = 3, .rows = 2, .block_scales = true});
    explore_completely({.schedule = schedule, .k_tiles = 2, .rows = 2, .scale_vectors = true});
    explore_completely({.schedule = schedule, .k_tiles = 4, .rows = 1, .slices = 2});
    explore_completely(
        {.schedule = schedule, .k_tiles = 2, .rows = 1, .clusters = 2});  // one cluster has no tile
  }
}

/// With swapped operands A holds the weights, so A's loads may be early and B's may not.
TEST(overlap, of_swapped_operands_the_other_one_may_come_early) {
  Scenario swapped = make({.k_tiles = 3, .overlap = kWeightsFirst});
  swapped.config.d = DType::bf16;
  swapped.config.store = StorePath::tma;
  swapped.config.d_major = Major::mn;
  const Exploration found = explore_all(record_gemm(swapped), {.max_states = 2'000'000});
  EXPECT_FALSE(found.failure) << describe(*found.failure);
  ClusterProgram program = record_gemm(swapped).clusters.front();
  EXPECT_FALSE(check_waits(program));
  program.scenario.config.d_major = Major::k;  // checked as if the operands were not swapped
  ASSERT_TRUE(check_waits(program));
  EXPECT_EQ(check_waits(program)->kind, FailureKind::before_the_wait);
}

TEST(overlap, planted_bugs_fall) {
  expect_both_catch<NeverWaits>(FailureKind::before_the_wait, {.k_tiles = 1, .overlap = kWeightsFirst});
  expect_both_catch<OnlyLoadWaits>(FailureKind::before_the_wait, {.k_tiles = 1, .overlap = kWeightsFirst});
  expect_both_catch<LoadsAEarly>(FailureKind::before_the_wait, {.k_tiles = 1, .overlap = kWeightsFirst});
  expect_both_catch<FetchesScalesEarly>(FailureKind::before_the_wait,
                                        {.k_tiles = 1, .block_scales = true, .overlap = kWeightsFirst});
  // Wait::first must delay the loads of weights too. Here they are early.
  ClusterProgram program = record_gemm(make({.k_tiles = 1, .overlap = kWeightsFirst})).clusters.front();
  program.scenario.config.overlap.wait = Wait::first;
  const std::optional<Failure> failure = check_waits(program);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->kind, FailureKind::before_the_wait);
  expect_all_catches<IdleCtasLeave>(FailureKind::no_wait,
                                    {.k_tiles = 1, .rows = 1, .clusters = 2, .overlap = kWeightsFirst});
}

}  // namespace
}  // namespace sluice::twin
