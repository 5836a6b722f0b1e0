// SPDX-License-Identifier: Apache-2.0
// Candidates and refusals of the packed planner; tests/plans/packed.txt has its choices. To see it fail:
// remove a rule of why_not_wanted in packed_planner.cc.
#include <algorithm>
#include <array>

#include "tests/packed_problems.h"

#include <gtest/gtest.h>

#include <sluice/spec/smem_room.h>

namespace sluice {
namespace {

TEST(packed_planner, of_e4m3_tokens_names_the_rule_that_an_override_breaks) {
  const PackedProblem problem{
      .m = 16, .n = 512, .k = 2048, .x = DType::e4m3, .weights = {.order = FragmentOrder::byte}};
  const auto rule = [&](const PlanOverrides& overrides, const char* mention) {
    const Result<Plan> plan = gemm::plan(problem, DeviceInfo{}, overrides);
    ASSERT_FALSE(plan.ok());
    EXPECT_NE(plan.error().message.find(mention), std::string::npos) << plan.error().message;
  };
  rule(PackedOverrides{.parts = 0}, "cluster_k = 0 must be in 1..8");
  rule(PackedOverrides{.strips = 0}, "tile_n = 0 must be in 8..256");
  rule(PackedOverrides{.k_groups = 1000}, "k_groups = 1000 must be in 1..4");
  rule(PackedOverrides{.stages = 1000}, "stages = 1000 must be in 2..32");
}

TEST(packed_planner, plans_for_a_device_without_room_for_a_cluster) {
  EXPECT_TRUE(gemm::plan(PackedProblem{.m = 512, .n = 28672, .k = 4096, .weights = {.group = 64}},
                         DeviceInfo{.sm_count = 1, .max_clusters_of_2 = 0}, {.ignore_records = true}));
}

TEST(packed_planner, fits_tiles_to_tokens) {
  const auto tokens_of = [](i64 m, i64 n, i64 k) {
    const Result<Plan> plan =
        gemm::plan(PackedProblem{.m = m, .n = n, .k = k}, DeviceInfo{}, {.ignore_records = true});
    EXPECT_TRUE(plan) << plan.error().message;
    return plan->config.schedule == Schedule::narrow ? 0 : plan->config.tile.m;
  };
  EXPECT_EQ(tokens_of(700, 4096, 11008), 176) << "128 tiles, one wave; of 128 tokens 192, two";
  EXPECT_EQ(tokens_of(96, 28672, 4096), 96);
  EXPECT_EQ(tokens_of(40, 4096, 4096), 40);
}

// The estimate never falls when the number of tokens grows, up to small differences that the model makes.
TEST(packed_planner, estimates_grow_with_tokens) {
  for (const DType x : {DType::fp16, DType::e4m3})
    for (const auto& [n, k] : {std::array<i64, 2>{4096, 4096},
                               {6144, 4096},
                               {28672, 4096},
                               {4096, 14336},
                               {8192, 8192},
                               {1280, 8192},
                               {5120, 13824},
                               {2880, 2880}}) {
      double most = 0;
      for (i64 m = 17; m <= 1024; m += 7) {
        PackedProblem p{.m = m, .n = n, .k = k, .x = x, .d = DType::bf16};
        if (!is_16bit(x)) p.weights.order = FragmentOrder::byte;
        const Result<Plan> plan = gemm::plan(p, DeviceInfo{}, {.ignore_records = true});
        ASSERT_TRUE(plan) << plan.error().message;
        EXPECT_GE(plan->estimate.total_us * 1.03, most)
            << m << "x" << n << "x" << k << " " << name_of(x) << ": fewer tokens take more";
        most = std::max(most, plan->estimate.total_us);
      }
    }
}

TEST(packed_planner, lists_rings_of_half_an_sm_for_chains_behind_all_others) {
  const PackedProblem problem{
      .m = 16, .n = 4096, .k = 14336, .x = DType::e4m3, .weights = {.order = FragmentOrder::byte}};
  const auto plans = gemm::candidates(problem, DeviceInfo{});
  const auto chosen = gemm::plan(problem, DeviceInfo{});
  ASSERT_TRUE(plans.ok() && chosen.ok());
  EXPECT_TRUE(plans->front().config == chosen->config);
  EXPECT_GT(plans->front().smem_bytes, kBesideAlone);
  EXPECT_LE(plans->back().smem_bytes, kBesideAlone);
  EXPECT_GT(plans->back().smem_bytes, kBesideAlone / 2);
}

}  // namespace
}  // namespace sluice
