// SPDX-License-Identifier: Apache-2.0
// Plans of the plain schedules: when they exist, their fixed choices, their refusals, and their records. To
// see it fail: leave the rule for promotion out of config_for, so that promoted problems have no such plan.
// Or let recorded_plan pass a record's clusters on, so that the plan is the model's.
#include <algorithm>

#include <gtest/gtest.h>

#include <climits>
#include <set>

#include <sluice/kernels/registry.h>
#include <sluice/plan/records/record.h>
#include <sluice/plan/records/record_book.h>
#include <sluice/records.h>
#include <sluice/run/ops/gemm.h>
#include <sluice/spec/validate.h>

#include "tuner_fixture.h"

namespace sluice {
namespace {

const DeviceInfo kH200{};

Problem tokens(i64 m, DType type = DType::e4m3) {
  return {
      .m = m, .n = 4096, .k = 4096, .a = {.type = type}, .b = {.type = type}, .accumulate = Accumulate::fast};
}

/// Tests that run for both plain schedules.
class planner_plain : public testing::TestWithParam<Schedule> {
 protected:
  std::vector<Plan> plain_ones(const Problem& p, const PlanOverrides& o = {}) const {
    const Result<std::vector<Plan>> all = gemm::candidates(p, kH200, o);
    std::vector<Plan> plain;
    if (all)
      std::copy_if(all->begin(), all->end(), std::back_inserter(plain),
                   [](const Plan& x) { return x.config.schedule == GetParam(); });
    return plain;
  }
};
INSTANTIATE_TEST_SUITE_P(schedules, planner_plain, testing::Values(Schedule::plain, Schedule::plain_wgmma),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(planner_plain, is_for_rows_that_one_tile_holds_unless_asked_for) {
  const i64 most = GetParam() == Schedule::plain ? 64 : 128;
  for (const i64 m : {i64{1}, i64{8}, i64{9}, i64{17}, i64{33}, i64{49}, most - 1, most})
    EXPECT_FALSE(plain_ones(tokens(m)).empty()) << m;
  EXPECT_TRUE(plain_ones(tokens(most + 1)).empty());
  EXPECT_FALSE(plain_ones(tokens(most + 1), {.schedule = GetParam()}).empty());
}

/// Two waves of tall tiles are slower than schedules with roles, so only overrides choose them.
TEST_P(planner_plain, is_one_wave_of_more_than_64_rows) {
  Problem wide = tokens(100);  // Schedule::plain only by override, because its tiles have at most 64 rows
  wide.n = 64 * 250;
  EXPECT_EQ(plain_ones(wide).empty(), GetParam() == Schedule::plain);
  for (const Plan& plan : plain_ones(wide))
    EXPECT_LE(plan.split.clusters * plan.config.cluster.k, kH200.sm_count * plain_ctas(plan.config))
        << short_name(plan.config);
  wide.n = 256 * 300;
  EXPECT_TRUE(plain_ones(wide).empty());
  EXPECT_FALSE(plain_ones(wide, {.schedule = GetParam()}).empty());
  EXPECT_FALSE(plain_ones(wide, {.warps = 8}).empty());
}

/// A tile with fewer rows than A is never picked. An override of the tile gets it, without naming the
/// schedule.
TEST_P(planner_plain, a_low_tile_that_is_asked_for_is_planned) {
  const std::vector<Plan> plans = plain_ones(tokens(40), {.tile_m = 32, .tile_n = 64});
  ASSERT_FALSE(plans.empty());
  for (const Plan& plan : plans) EXPECT_EQ(plan.config.tile.m, 32);
  for (const Plan& plan : plain_ones(tokens(40))) EXPECT_GE(plan.config.tile.m, 40);
}

TEST_P(planner_plain, plans_are_valid_and_launch_a_cluster_for_each_tile) {
  for (const i64 m : {1, 16, 40, 65, 100})
    for (const Plan& plan : plain_ones(tokens(m, DType::bf16))) {
      EXPECT_EQ(validate(plan.config), nullptr) << short_name(plan.config);
      EXPECT_GE(plan.config.tile.m, m);
      EXPECT_EQ(plan.split.clusters, ceil_div(4096, plan.config.tile.n));
      EXPECT_EQ(plan.workspace_bytes, 0);
      EXPECT_GT(plan.estimate.total_us, 1);
    }
}

/// mma.sync multiplies fp8 as fp16 and adds in fp32, so its sums count as promoted. WGMMA's fp8 accumulators
/// have fewer bits.
TEST_P(planner_plain, sums_of_fp8_are_promoted_ones_already_or_there_are_none) {
  Problem p = tokens(4);
  p.accumulate = Accumulate::promoted;
  const std::vector<Plan> plans = plain_ones(p);
  EXPECT_EQ(plans.empty(), GetParam() == Schedule::plain_wgmma);
  for (const Plan& plan : plans) EXPECT_FALSE(plan.config.promotes);
  const Result<Plan> asked = gemm::plan(p, kH200, {.schedule = GetParam()});
  EXPECT_EQ(asked.ok(), GetParam() == Schedule::plain);
  if (!asked) {
    EXPECT_NE(asked.error().message.find("accumulate = fast"), std::string::npos) << asked.error().message;
  }
}

TEST_P(planner_plain, is_not_for_what_it_cannot_do) {
  Problem blocks = tokens(9);
  blocks.epilogue.scale_a = blocks.epilogue.scale_b = ScaleMode::block;
  EXPECT_TRUE(plain_ones(blocks).empty()) << "schedules with roles are as fast from here on";
  Problem columns = tokens(8, DType::bf16);
  columns.b.major = Major::mn;
  EXPECT_TRUE(plain_ones(columns).empty());
  EXPECT_TRUE(plain_ones(tokens(4), {.splits = 4}).empty());
  EXPECT_TRUE(plain_ones(tokens(4), {.store = StorePath::tma}).empty());
  EXPECT_TRUE(plain_ones(tokens(4), {.raster = Raster::along_n}).empty());
}

TEST_P(planner_plain, is_tried_with_block_scales_of_few_rows) {
  Problem blocks = tokens(8);
  blocks.epilogue.scale_a = blocks.epilogue.scale_b = ScaleMode::block;
  for (const bool gated : {false, true}) {
    blocks.epilogue.gated = gated;
    EXPECT_EQ(plain_ones(blocks).empty(), GetParam() == Schedule::plain_wgmma);
  }
}

TEST_P(planner_plain, says_why_an_override_leaves_none) {
  const auto message = [](const Problem& p, PlanOverrides o) {
    o.schedule = GetParam();
    const Result<Plan> plan = gemm::plan(p, kH200, o);
    EXPECT_FALSE(plan.ok());
    return plan.ok() ? std::string() : plan.error().message;
  };
  Problem columns = tokens(8, DType::bf16);
  columns.a.major = Major::mn;
  EXPECT_NE(message(columns, {}).find("K-major"), std::string::npos);
  EXPECT_NE(message(tokens(4), {.splits = 2}).find("inside a cluster"), std::string::npos);
  EXPECT_NE(message(tokens(4), {.tile_n = 24}).find("above 32"), std::string::npos);
  EXPECT_NE(message(tokens(4), {.cluster = ClusterShape{2, 1}}).find("along k only"), std::string::npos);
}

TEST(planner_plain_widths, any_that_the_kernel_has_may_be_asked_for) {
  for (const int width : {16, 40, 72, 152, 256}) {
    const Result<Plan> plan =
        gemm::plan(tokens(4), kH200, {.schedule = Schedule::plain_wgmma, .tile_n = width});
    ASSERT_TRUE(plan.ok()) << width << ": " << plan.error().message;
    EXPECT_EQ(plan->config.tile.n, width);
  }
  for (const int width : {-8, 0, 8, 12, 24, 36, 264, 1 << 30, INT_MAX})
    EXPECT_FALSE(gemm::plan(tokens(4), kH200, {.schedule = Schedule::plain_wgmma, .tile_n = width}).ok())
        << width;
  for (const int width : {8, 12}) static_cast<void>(gemm::plan(tokens(4), kH200, {.tile_n = width}));
}

TEST_P(planner_plain, an_empty_problem_has_one_if_asked_for) {
  const Problem empty = tokens(0);
  EXPECT_TRUE(plain_ones(empty).empty());
  EXPECT_TRUE(gemm::plan(empty, kH200, {.schedule = GetParam()}).ok());
}

TEST_P(planner_plain, rows_times_batch_must_fit_a_grid) {
  Problem p = tokens(8);
  p.batch = 65535;
  EXPECT_FALSE(plain_ones(p).empty());
  p.batch = 65536;
  EXPECT_TRUE(plain_ones(p).empty());
  const Result<Plan> plan = gemm::plan(p, kH200, {.schedule = GetParam()});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("65535"), std::string::npos) << plan.error().message;
}

TEST(planner_plain_space, every_ring_is_possible) {
  for (const PlainBase& base : kPlainSpace) {
    KernelConfig c = config_for(tokens(8), {Schedule::plain, 8, base.tile_n}, {1, 1}, StorePath::direct);
    c.warps = base.warps;
    c.stages = base.stages;
    EXPECT_EQ(validate(c), nullptr) << short_name(c);
  }
}

/// 5120 outputs in tiles of 32 are 160 CTAs, so some SMs get two. To see it fail: round widths up to 16.
TEST(planner_plain_space, widths_are_fitted_to_the_sms) {
  const auto widths = [](const Problem& p) {
    std::set<int> found;
    const Result<std::vector<Plan>> plans = gemm::candidates(p, DeviceInfo{});
    for (const Plan& plan : *plans)
      if (plan.config.schedule == Schedule::plain_wgmma) found.insert(plan.config.tile.n);
    return found;
  };
  Problem p = tokens(1);
  p.n = 5120;
  p.k = 25600;
  EXPECT_TRUE(widths(p).contains(40));
  p.n = 51200;
  EXPECT_TRUE(widths(p).contains(200));
  p.epilogue.activation = Activation::silu;
  p.epilogue.gated = true;
  EXPECT_FALSE(widths(p).contains(200)) << "pairs of eight rows";
  EXPECT_TRUE(widths(p).contains(208));

  KernelConfig c = config_for(tokens(8), {Schedule::plain_wgmma, 8, 40}, {1, 1}, StorePath::direct);
  c.warps = 8;
  c.stages = plain_stages(c, 1);
  EXPECT_EQ(validate(c), nullptr);
  for (const int width : {24, 36, 264}) {
    c.tile.n = width;
    EXPECT_NE(validate(c), nullptr) << width;
  }
}

/// For every number of tokens, as many CTAs fit on an SM as the space assumes. Every ring has at least two
/// stages.
TEST(planner_plain_space, every_ring_of_warpgroups_fits_as_often_as_it_says) {
  for (const PlainWgmmaBase& base : kPlainWgmmaSpace)
    for (const int tokens_of_tile : {8, 16, 32, 48, 64, 96, 128}) {
      KernelConfig c = config_for(tokens(8), {Schedule::plain_wgmma, tokens_of_tile, base.tile_n}, {1, 1},
                                  StorePath::direct);
      c.warps = base.warps;
      c.stages = plain_stages(c, base.ctas);
      // Too many accumulators, or only one stage.
      if (tokens_of_tile > 32 && validate(c) != nullptr) continue;
      EXPECT_EQ(validate(c), nullptr) << short_name(c);
      EXPECT_GE(plain_ctas(c), base.ctas) << short_name(c);
      ++c.stages;
      EXPECT_TRUE(c.stages > kMaxStages || plain_smem_bytes(c) > kMaxSmemBytes || plain_ctas(c) < base.ctas)
          << short_name(c);
    }
}

TEST_P(planner_plain, a_record_brings_one_back) {
  const Problem p = tokens(4);
  const std::vector<Plan> plans = plain_ones(p);
  ASSERT_GT(plans.size(), 3u);
  const Plan& wanted = plans[3];
  TuningRecord record{.key = key_of(p, kH200),
                      .choice = TunedChoice{.schedule = GetParam(),
                                            .tile_m = wanted.config.tile.m,
                                            .tile_n = wanted.config.tile.n,
                                            .cluster = wanted.config.cluster,
                                            .clusters = wanted.split.clusters,
                                            .warps = wanted.config.warps,
                                            .stages = wanted.config.stages,
                                            .measured_us = 5.0}};
  record.sluice = record.driver = record.method = "test";
  record.date = "2026-11-21T10:00:00Z";
  const std::string text = to_json(record);
  EXPECT_NE(text.find("\"warps\":" + std::to_string(wanted.config.warps)), std::string::npos) << text;
  const ParsedRecords parsed = parse_records(text, "here");
  ASSERT_EQ(parsed.records.size(), 1u) << (parsed.troubles.empty() ? "" : parsed.troubles.front());
  EXPECT_EQ(parsed.records.front().choice, record.choice);
  const Result<Plan> plan = gemm::plan(p, kH200, {}, book_of(parsed.records));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->source, PlanSource::record);
  EXPECT_EQ(plan->config, wanted.config);
}

/// Near 2^31 tiles. A plain kernel has one CTA per tile, and may have more than 2^30 of them: persistent
/// kernels may not, because they count past the last tile.
TEST_P(planner_plain, whatever_is_planned_of_a_very_large_problem_can_be_prepared) {
  int many = 0;
  for (const i64 n : {4'941'195, 2'000'000, 600'000})
    for (const Plan& plan : plain_ones({.m = 38, .n = n, .k = 5848, .batch = 48'160})) {
      const auto checked = gemm::sealed(plan, kH200);
      EXPECT_TRUE(checked.ok()) << checked.error().message;
      many += plan.split.clusters > 1 << 30 ? 1 : 0;
    }
  EXPECT_GT(many, 0);
}

}  // namespace
}  // namespace sluice
