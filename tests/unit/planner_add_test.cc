// SPDX-License-Identifier: Apache-2.0
// Plans of products that are added to D: refusals, how slices are combined, cost, and records, which must
// match only such products. To see it fail: let combines_of_parts() always return Combine::add, or leave
// `adding` out of recipe_of.
#include <gtest/gtest.h>

#include <sluice/plan/dense/slices.h>
#include <sluice/plan/dense/traffic.h>

#include "tuner_fixture.h"

namespace sluice {
namespace {

const DeviceInfo kH200{};

/// Returns a weight gradient: few tiles, a large k, added to the old contents of D.
Problem gradient(bool deterministic) {
  return {.m = 512,
          .n = 512,
          .k = 32768,
          .d = {.type = DType::fp32},
          .epilogue = {.update = Update::add},
          .deterministic = deterministic};
}

std::vector<Plan> candidates(const Problem& p, const PlanOverrides& o = {}) {
  Result<std::vector<Plan>> plans = gemm::candidates(p, kH200, o);
  EXPECT_TRUE(plans.ok()) << plans.error().message;
  return plans.ok() ? *plans : std::vector<Plan>{};
}

void expect_refused(const Problem& p, std::initializer_list<const char*> words) {
  const Result<Plan> plan = gemm::plan(p, kH200);
  ASSERT_FALSE(plan.ok()) << to_string(p);
  EXPECT_EQ(plan.error().code, ErrorCode::invalid_type);
  for (const char* word : words)
    EXPECT_NE(plan.error().message.find(word), std::string::npos) << plan.error().message << word;
}

TEST(planner_add, takes_an_fp32_d_and_scales_and_nothing_else) {
  Problem p = gradient(true);
  p.d.type = DType::bf16;
  expect_refused(p, {"D is bf16 and update is add", "fp32", "residual C with beta"});
  p = gradient(true);
  p.epilogue.residual = true;
  expect_refused(p, {"update is add and there is a residual C", "leave out C"});
  p = gradient(true);
  p.epilogue.bias = Bias::column;
  expect_refused(p, {"bias or activation", "residual C with beta"});
  p = gradient(true);
  p.epilogue.activation = Activation::relu;
  expect_refused(p, {"bias or activation"});
  p = gradient(false);
  p.a.type = p.b.type = DType::e4m3;
  p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
  EXPECT_TRUE(gemm::plan(p, kH200));
  p.epilogue.scale_a = ScaleMode::vector, p.epilogue.scale_b = ScaleMode::tensor;
  EXPECT_TRUE(gemm::plan(p, kH200));
}

TEST(planner_add, splits_in_the_order_that_was_asked_for) {
  for (const bool deterministic : {true, false}) {
    int splits = 0;
    for (const Plan& plan : candidates(gradient(deterministic))) {
      EXPECT_TRUE(adds(plan.config.epilogue));
      if (plan.split.slices == 1) continue;
      ++splits;
      EXPECT_EQ(plan.config.combine == Combine::add, !deterministic) << short_name(plan.config);
      EXPECT_EQ(plan.workspace_bytes > 0, deterministic) << short_name(plan.config);
    }
    EXPECT_GT(splits, 0);
  }
  Problem overwritten = gradient(false);
  overwritten.epilogue.update = Update::set;
  for (const Plan& plan : candidates(overwritten)) EXPECT_NE(plan.config.combine, Combine::add);
}

TEST(planner_add, overrides_split_so_too_and_workspace_limits_do_not_matter) {
  PlanOverrides o{
      .schedule = Schedule::cooperative, .tile_m = 256, .tile_n = 160, .cluster = ClusterShape{1, 1}};
  o.splits = 4;
  o.workspace_limit = 0;
  const std::vector<Plan> plans = candidates(gradient(false), o);
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].config.combine, Combine::add);
  EXPECT_EQ(plans[0].workspace_bytes, 0);
  EXPECT_EQ(plans[0].split.slices, 4);
  const Result<std::vector<Plan>> ordered = gemm::candidates(gradient(true), kH200, o);
  ASSERT_FALSE(ordered) << "160 sums a thread leave no room for slots";
}

TEST(planner_add, counts_d_read_and_written_and_parts_in_any_order_as_cheaper) {
  Problem set = with_strides(gradient(true));
  set.epilogue.update = Update::set;
  const KernelConfig c{.tile = {128, 128, 64}};
  const double d = 512.0 * 512 * 4;
  const WorkSplit whole{.clusters = 16};
  EXPECT_DOUBLE_EQ(traffic_of(with_strides(gradient(true)), c, whole, kH200).hbm_bytes,
                   traffic_of(set, c, whole, kH200).hbm_bytes + d);
  const Result<Plan> ordered = gemm::plan(gradient(true), kH200), any = gemm::plan(gradient(false), kH200);
  ASSERT_TRUE(ordered && any);
  EXPECT_LE(any->estimate.total_us, ordered->estimate.total_us);
}

TEST(planner_add, a_record_is_for_problems_added_alike) {
  Problem any = tuned_problem(), ordered = tuned_problem();
  any.d.type = ordered.d.type = DType::fp32;
  any.epilogue.update = ordered.epilogue.update = Update::add;
  any.deterministic = false;
  TuningRecord record = sample_record(any);
  dense_choice(record).cluster = {1, 1};
  dense_choice(record).slices = 2;
  dense_choice(record).clusters = 2 * 16 * 43;
  dense_choice(record).combine = Combine::add;
  const RecordBook book = book_of(std::vector{record});
  const Result<Plan> found = gemm::plan(any, kH200, {}, book);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->source, PlanSource::record);
  EXPECT_EQ(found->config.combine, Combine::add);
  EXPECT_EQ(found->split.slices, 2);
  EXPECT_EQ(gemm::plan(ordered, kH200, {}, book)->source, PlanSource::model);
  ordered.epilogue.update = Update::set;
  EXPECT_EQ(gemm::plan(ordered, kH200, {}, book)->source, PlanSource::model);
}

/// Before 0.3 a record could split the tiles of the last wave alone, and had fewer clusters than slices.
TEST(planner_add, a_record_that_splits_some_of_its_tiles_is_passed_over) {
  TuningRecord record = sample_record(tuned_problem());
  dense_choice(record).cluster = {1, 1};
  dense_choice(record).combine = Combine::last_arriver;
  dense_choice(record).slices = 2;
  const auto source = [&](int clusters) {
    dense_choice(record).clusters = clusters;
    return gemm::plan(tuned_problem(), kH200, {}, book_of(std::vector{record}))->source;
  };
  EXPECT_EQ(source(2 * 16 * 43), PlanSource::record);
  EXPECT_EQ(source(66), PlanSource::model);
}

TEST(planner_add, slices_and_slots_are_counted_in_an_int) {
  const Problem p = with_strides({.m = 64 * 50'000, .n = 8 * 40'000, .k = 128, .d = {.type = DType::fp32}});
  KernelConfig c{.schedule = Schedule::ping_pong, .tile = {64, 8, 64}};
  for (const Combine combine : {Combine::add, Combine::separate, Combine::last_arriver}) {
    c.combine = combine;
    const std::string wrong = slices_problem(p, c, split_into(p, c, {}, 2));
    EXPECT_NE(wrong.find("below 2^31"), std::string::npos) << wrong;
  }
  c.combine = Combine::add;
  const Problem half =
      with_strides({.m = 64 * 25'000, .n = 8 * 40'000, .k = 128, .d = {.type = DType::fp32}});
  EXPECT_EQ(slices_problem(half, c, split_into(half, c, {}, 2)), "");
}

}  // namespace
}  // namespace sluice
