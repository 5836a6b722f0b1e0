// SPDX-License-Identifier: Apache-2.0
// The planner with records: the record decides and is named as the source, overrides and rules have
// precedence, and a faulty record gives the model's plan. All shipped records are usable. To see it fail:
// remove is_listed, so that a tile outside the space is planned; or look up records despite overrides.
#include <gtest/gtest.h>

#include <sluice/kernels/registry.h>

#include "tests/packed_problems.h"
#include "tuner_fixture.h"

namespace sluice {
namespace {

const DeviceInfo kH200{};

Plan planned(const RecordBook& book, const PlanOverrides& overrides = {}) {
  const Result<Plan> plan = gemm::plan(tuned_problem(), kH200, overrides, book);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? *plan : Plan{};
}

RecordBook book_with(const TunedChoice& choice) {
  TuningRecord record = sample_record();
  record.choice = choice;
  return book_of(std::vector{record});
}

TEST(tuner_plan, the_record_decides_and_the_plan_says_so) {
  const Plan plan = planned(book_of(std::vector{sample_record()}));
  const TunedChoice choice = sample_record().choice;
  EXPECT_EQ(plan.source, PlanSource::record);
  EXPECT_EQ(plan.measured_us, choice.measured_us);
  EXPECT_EQ(plan.config.schedule, choice.schedule);
  EXPECT_EQ(plan.config.tile, (TileShape{choice.tile_m, choice.tile_n, 64}));
  EXPECT_EQ(plan.config.cluster, choice.cluster);
  EXPECT_EQ(plan.split, (WorkSplit{choice.clusters, choice.raster, choice.raster_group}));
  EXPECT_EQ(plan.config.stages, max_stages(plan.config));
  EXPECT_EQ(validate(plan.config), nullptr);
  EXPECT_GT(plan.estimate.total_us, 0);
  EXPECT_GT(plan.smem_bytes, 0);
}

/// To see it fail: leave the numbering out of dense_plan_of().
TEST(tuner_plan, the_numbering_is_the_records_and_not_the_models) {
  TunedChoice choice = sample_record().choice;
  for (const Numbering numbering : {Numbering::launch, Numbering::gpc}) {
    choice.numbering = numbering;
    const Plan plan = planned(book_with(choice));
    EXPECT_EQ(plan.source, PlanSource::record);
    EXPECT_EQ(plan.split, (WorkSplit{.clusters = choice.clusters,
                                     .raster = choice.raster,
                                     .group = choice.raster_group,
                                     .numbering = numbering}));
  }
}

TEST(tuner_plan, the_problem_is_still_the_callers) {
  Problem p = tuned_problem();
  p.epilogue = {.scale_a = ScaleMode::tensor, .activation = Activation::relu};
  p.a.ld = 8192;
  const Result<Plan> plan = gemm::plan(p, kH200, {}, book_of(std::vector{sample_record()}));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->source, PlanSource::record);
  EXPECT_EQ(plan->config.epilogue, p.epilogue);
  EXPECT_EQ(plan->problem.a.ld, 8192);
}

TEST(tuner_plan, any_override_comes_before_records) {
  const RecordBook book = book_of(std::vector{sample_record()});
  EXPECT_EQ(planned(book, {.tile_m = 128}).source, PlanSource::model);
  EXPECT_EQ(planned(book, {.tile_m = 128}).config.tile.m, 128);
  EXPECT_EQ(planned(book, {.stages = 3}).config.stages, 3);
  const Plan fresh = planned(book, {.ignore_records = true});
  EXPECT_EQ(fresh.source, PlanSource::model);
  EXPECT_EQ(describe(fresh), describe(planned(RecordBook())));
}

TEST(tuner_plan, what_breaks_a_rule_leaves_the_choice_to_the_model) {
  const std::string model = describe(planned(RecordBook()));
  const TunedChoice good = sample_record().choice;
  std::vector<TunedChoice> bad(8, good);
  bad[0].tile_n = 76;       // no WGMMA has this width
  bad[1].tile_m = 192;      // invalid, and not listed
  bad[2].cluster = {1, 8};  // valid, but not in the search space
  bad[2].clusters = 10;
  bad[3].clusters = 67;  // only 66 clusters of two are resident at once
  bad[4].clusters = 0;
  bad[5].raster_group = 0;
  bad[6].raster_group = 2147483647;         // its product with the other extent exceeds 2^31
  bad[7].schedule = Schedule::cooperative;  // 64 rows are too few for two groups
  for (std::size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(planned(book_with(bad[i])).source, PlanSource::model) << i;
    EXPECT_EQ(describe(planned(book_with(bad[i]))), model) << i;
  }
}

/// Swapped operands have no list of widths. An invalid width breaks a rule of its own.
TEST(tuner_plan, swapped_records_may_have_any_width_but_no_other_height) {
  TunedChoice good = sample_record().choice;
  good.swapped = true;
  good.tile_n = 104;
  good.cluster = {1, 1};
  EXPECT_EQ(planned(book_with(good)).source, PlanSource::record);
  EXPECT_EQ(planned(book_with(good)).config.tile.n, 104);
  std::vector<TunedChoice> bad(5, good);
  bad[0].tile_n = 100;  // not a multiple of 8
  bad[1].tile_n = 264;
  bad[2].tile_m = 192;
  bad[3].tile_m = 256;  // ping-pong has no such tile
  bad[4].cluster = {8, 1};
  for (const TunedChoice& choice : bad)
    EXPECT_EQ(planned(book_with(choice)).source, PlanSource::model)
        << choice.tile_m << "x" << choice.tile_n << " " << choice.cluster.m;
}

TEST(tuner_plan, a_problem_that_is_refused_is_refused_with_records_too) {
  Problem p = tuned_problem();
  p.k = 100;
  p.a.type = p.b.type = DType::e4m3;
  EXPECT_FALSE(gemm::plan(p, kH200, {}, book_of(std::vector{sample_record()})));
}

/// The record is of the plain product that a gate reads. The gated product takes another time, which is not
/// known.
TEST(tuner_plan, the_time_of_a_product_alone_says_so) {
  Problem gated{.m = 4096, .n = 4096, .k = 4096};
  const Result<Plan> alone = gemm::plan(gated, kH200);
  gated.epilogue = {.activation = Activation::silu, .gated = true};
  const Result<Plan> plan = gemm::plan(gated, kH200);
  ASSERT_TRUE(alone && plan);
  ASSERT_EQ(alone->source, PlanSource::record);
  ASSERT_EQ(plan->source, PlanSource::record);
  EXPECT_FALSE(alone->product_alone);
  EXPECT_TRUE(plan->product_alone);
  EXPECT_EQ(plan->measured_us, alone->measured_us);
  EXPECT_NE(describe(*alone).find("a record, measured "), std::string::npos);
  EXPECT_NE(describe(*plan).find("a record of the product alone, "), std::string::npos) << describe(*plan);

  PackedProblem packed{
      .m = 16, .n = 28672, .k = 4096, .x = DType::fp16, .d = DType::fp16, .weights = {.group = 64}};
  const Result<Plan> narrow = gemm::plan(packed, kH200);
  packed.gated = true;
  const Result<Plan> gate = gemm::plan(packed, kH200);
  ASSERT_TRUE(narrow && gate);
  ASSERT_EQ(narrow->source, PlanSource::record);
  EXPECT_FALSE(narrow->product_alone);
  if (gate->source == PlanSource::record) {
    EXPECT_NE(describe(*gate).find("a record of the product alone, "), std::string::npos);
  }
}

TEST(tuner_plan, candidates_are_the_models) {
  const Result<std::vector<Plan>> plans = gemm::candidates(tuned_problem(), kH200);
  ASSERT_TRUE(plans);
  for (const Plan& plan : *plans) ASSERT_EQ(plan.source, PlanSource::model);
}

TEST(tuner_plan, every_shipped_record_is_read_found_and_used) {
  EXPECT_TRUE(embedded_records().troubles.empty()) << embedded_records().troubles.front();
  EXPECT_EQ(static_cast<std::size_t>(shipped_records().size()),
            embedded_records().records.size() + embedded_records().chains.size())
      << "two shipped records have one key";
  for (const TuningRecord& record : embedded_records().records) {
    const DeviceInfo device{.name = record.key.gpu, .sm_count = record.key.sm_count};
    const Problem problem = example_of(record.key.recipe);
    ASSERT_EQ(recipe_of(problem), record.key.recipe) << to_json(record);
    const Result<Plan> plan = gemm::plan(problem, device);
    ASSERT_TRUE(plan) << to_json(record) << ": " << plan.error().message;
    EXPECT_EQ(plan->source, PlanSource::record) << to_json(record);
    EXPECT_EQ(plan->measured_us, record.choice.measured_us);
  }
}

}  // namespace
}  // namespace sluice
