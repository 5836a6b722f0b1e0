// SPDX-License-Identifier: Apache-2.0
// Records of packed weights: JSON form, recipe, folder, a book that also has dense records, and the planner.
// To see it fail: leave made_for out of the planner, so that no record's config is a candidate; or leave
// `zero` out of the recipe.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include <sluice/run/records/record_store.h>
#include <sluice/spec/smem_room.h>

#include "tests/packed_problems.h"
#include "tuner_fixture.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

const DeviceInfo kH200{};
const WideConfig kWide{.tokens = 64, .cluster_n = 2, .x_stages = 8, .w_stages = 4};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string trouble_of(const Json& json) {
  const ParsedRecords parsed = parse_records(json.dump(), "FILE");
  EXPECT_TRUE(parsed.records.empty()) << json;
  EXPECT_EQ(parsed.troubles.size(), 1u) << json;
  return parsed.troubles.empty() ? "" : parsed.troubles.front();
}

TEST(tuner_packed, a_record_of_every_kernel_goes_both_ways) {
  // Every field has another value.
  const PackedConfig all[] = {
      NarrowConfig{.token_blocks = 3, .row_blocks = 4, .warps = 5, .stages = 6, .parts = 7, .ctas = 8},
      WideConfig{.tokens = 3, .cluster_n = 4, .x_stages = 5, .w_stages = 6},
      StripConfig{.tokens = 3, .strips = 4, .k_groups = 5, .parts = 6, .stages = 7}};
  for (const PackedConfig& config : all) {
    const TuningRecord record = sample_packed_record(config);
    const std::string text = to_json(record);
    const ParsedRecords parsed = parse_records(text, "FILE");
    ASSERT_TRUE(parsed.troubles.empty()) << parsed.troubles.front();
    EXPECT_EQ(parsed.records, std::vector{record}) << text;
    EXPECT_EQ(Json::parse(text)["kernel"], name_of(config_of(config).schedule));
  }
}

// Version 0.2 asks for cluster_k, and 0.3 refuses what only 0.2 could run.
TEST(tuner_packed, fields_removed_from_the_wide_kernel_have_their_default) {
  const std::string text = to_json(sample_packed_record(kWide));
  EXPECT_EQ(Json::parse(text)["cluster_k"], 1);
  EXPECT_EQ(text.find("tail_parts"), std::string::npos);
  for (const char* name : {"cluster_k", "tail_parts"}) {
    Json json = Json::parse(text);
    json[name] = 2;
    const ParsedRecords parsed = parse_records(json.dump(), "FILE");
    EXPECT_TRUE(parsed.records.empty());
    ASSERT_EQ(parsed.troubles.size(), 1u);
    EXPECT_NE(parsed.troubles[0].find(std::string(name) + "\" = 2 other than 1 was removed in 0.3"),
              std::string::npos)
        << parsed.troubles[0];
  }
}

TEST(tuner_packed, an_array_holds_both_kinds_and_is_the_same_for_any_order) {
  const TuningRecord dense = sample_record(), packed = sample_packed_record();
  const std::string text = to_json(std::vector{packed, dense});
  EXPECT_EQ(text, to_json(std::vector{dense, packed}));
  EXPECT_EQ(parse_records(text, "FILE").records, (std::vector{dense, packed}));
}

TEST(tuner_packed, what_is_missing_of_another_type_or_unknown_is_named) {
  for (const PackedConfig& kernel :
       {PackedConfig(NarrowConfig{}), PackedConfig(WideConfig{}), PackedConfig(StripConfig{})}) {
    const Json sample = Json::parse(to_json(sample_packed_record(kernel)));
    for (const auto& [name, value] : sample.items()) {
      Json bent = sample;
      bent.erase(name);
      // A record without this field counts as dense.
      const std::string first = name == "weights" ? "batch" : name;
      if (name == "cluster_k") continue;  // only version 0.2 asks for it
      EXPECT_TRUE(has(trouble_of(bent), '"' + first + "\" is missing")) << name << trouble_of(bent);
      // Free text, any value is valid.
      if (name == "gpu" || name == "sluice" || name == "driver" || name == "method") continue;
      for (const Json& wrong : {Json(nullptr), Json("@"), Json(-1)}) {
        bent[name] = wrong;
        EXPECT_TRUE(has(trouble_of(bent), '"' + name + "\" = " + wrong.dump() + " must be")) << name;
      }
    }
  }
  Json bent = Json::parse(to_json(sample_packed_record()));
  bent["kernel"] = "broad";
  EXPECT_TRUE(has(trouble_of(bent), "\"kernel\" = \"broad\" must be one of: narrow, wide, strip"))
      << trouble_of(bent);
  bent["kernel"] = "wide";
  EXPECT_TRUE(has(trouble_of(bent), "\"tokens\" is missing"));
  bent["kernel"] = "narrow";
  bent["tokens"] = 64;
  EXPECT_TRUE(has(trouble_of(bent), "\"tokens\" is no field of version 2"));
  bent = Json::parse(to_json(sample_packed_record()));
  bent["weights"] = "none";
  EXPECT_TRUE(has(trouble_of(bent), "must be one of: uint4, int8, e4m3")) << trouble_of(bent);
}

TEST(tuner_packed, a_recipe_shares_what_costs_the_same_and_tells_apart_what_costs_more) {
  const PackedProblem plain = tuned_packed_problem();
  PackedProblem same = plain;
  same.ld_x = 8192;
  same.ld_d = 4104;
  same.activation = Activation::relu;
  same.bias_type = DType::fp32;
  EXPECT_EQ(recipe_of(plain), recipe_of(same));
  std::vector<PackedProblem> others(15, plain);
  others[0].m = 17;
  others[1].n += 8;
  others[2].k += 8;
  others[3].x = DType::bf16;
  others[4].d = DType::bf16;
  others[5].d = DType::fp32;
  others[6].weights.type = WeightType::int8;
  others[7].weights.group = 128;
  others[8].weights.scale = DType::bf16;
  others[9].weights.zero = ScaleZero::per_group;
  others[10].bias = Bias::column;
  others[11].activation = Activation::gelu;
  others[12].ld_d = 4097;  // the copy engine cannot store such rows
  others[13].weights.order = FragmentOrder::byte;
  others[14].scale_x = ScaleMode::vector;
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(recipe_of(plain), recipe_of(others[i])) << i;
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(recipe_of(others[i]), recipe_of(others[j])) << i << " " << j;
    EXPECT_EQ(recipe_of(example_of(recipe_of(others[i]))), recipe_of(others[i])) << i;
  }
}

TEST(tuner_packed, a_folder_and_a_book_hold_them_beside_dense_ones) {
  const std::string path = testing::TempDir() + "sluice_packed_records_" + std::to_string(getpid());
  {
    Result<RecordStore> store = RecordStore::open_folder(path);
    ASSERT_TRUE(store) << store.error().message;
    ASSERT_TRUE(store->save(sample_record()));
    ASSERT_TRUE(store->save(sample_packed_record()));
    ASSERT_TRUE(store->save(sample_packed_record(kWide))) << "in place of the other";
  }
  const Result<RecordStore> store = RecordStore::open_folder(path);
  ASSERT_TRUE(store);
  EXPECT_EQ(store->records().size(), 2u);
  EXPECT_TRUE(file_name_of(sample_packed_record().key).starts_with("16x4096x4096-fp16-uint4-fp16-"));
  const RecordBook book = open_records({.records_dir = path});
  EXPECT_TRUE(book.find(tuned_problem(), kH200));
  const std::optional<TunedChoice> found = book.find(tuned_packed_problem(), kH200);
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, sample_packed_record(kWide).choice);
  EXPECT_FALSE(book.find(tuned_packed_problem(), DeviceInfo{.sm_count = 114})) << "another GPU";
  std::filesystem::remove_all(path);
}

Plan planned(const RecordBook& book, const PackedProblem& problem = tuned_packed_problem(),
             const PlanOverrides& overrides = {}) {
  const Result<Plan> plan = gemm::plan(problem, kH200, overrides, book);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? *plan : Plan{};
}

TEST(tuner_packed, the_record_decides_and_the_plan_says_so) {
  const RecordBook book = book_of(std::vector{sample_packed_record()});
  const Plan plan = planned(book), model = planned(RecordBook());
  EXPECT_EQ(plan.source, PlanSource::record);
  EXPECT_EQ(plan.measured_us, 7.125);
  EXPECT_GT(plan.estimate.total_us, 0);
  const NarrowConfig c = narrow_of(plan.config);
  EXPECT_EQ(c.row_blocks, 2);
  EXPECT_EQ(c.stages, 5);
  EXPECT_EQ(c.weights, tuned_packed_problem().weights) << "formats are the problem's";
  EXPECT_EQ(validate(c), nullptr);
  EXPECT_EQ(plan.smem_bytes, smem_bytes(c));
  EXPECT_TRUE(has(describe(plan), "chosen by  a record, measured 7.12 us")) << describe(plan);
  EXPECT_TRUE(has(describe(model), "chosen by  the cost model"));
  EXPECT_NE(plan.config, model.config);
  PackedProblem other = tuned_packed_problem();
  other.activation = Activation::relu;
  other.bias_type = DType::fp32;
  EXPECT_EQ(planned(book, other).source, PlanSource::record);
  EXPECT_EQ(planned(book, other).config.epilogue.activation, Activation::relu);
  other.m = 15;
  EXPECT_EQ(planned(book, other).source, PlanSource::model) << "no record of a neighbour's";
}

/// Also covers choices that only the tuner tries: rings of half an SM for e4m3 tokens.
TEST(tuner_packed, whatever_candidate_was_fastest_is_planned) {
  PackedProblem p = tuned_packed_problem();
  p.m = 64;
  p.x = DType::e4m3;
  p.d = DType::bf16;
  p.weights.order = FragmentOrder::byte;
  const Result<std::vector<Plan>> plans = gemm::candidates(p, kH200);
  ASSERT_TRUE(plans) << plans.error().message;
  int halves = 0;
  for (const Plan& plan : *plans) {
    TuningRecord record = sample_packed_record(packed_config_of(plan.config));
    record.key = key_of(plan.problem, kH200);
    const Plan found = planned(book_of(std::vector{record}), p);
    EXPECT_EQ(found.source, PlanSource::record) << short_name(plan.config);
    EXPECT_EQ(found.config, plan.config);
    halves += plan.smem_bytes <= kBesideAlone ? 1 : 0;
  }
  EXPECT_GT(halves, 3);
}

TEST(tuner_packed, any_override_comes_before_records) {
  const RecordBook book = book_of(std::vector{sample_packed_record()});
  const PackedProblem p = tuned_packed_problem();
  EXPECT_EQ(planned(book, p, PackedOverrides{.warps = 8}).source, PlanSource::model);
  const Plan fresh = planned(book, p, {.ignore_records = true});
  EXPECT_EQ(fresh.source, PlanSource::model);
  EXPECT_EQ(fresh.config, planned(RecordBook()).config);
  const Result<std::vector<Plan>> plans = gemm::candidates(p, kH200);
  ASSERT_TRUE(plans);
  for (const Plan& plan : *plans) ASSERT_EQ(plan.source, PlanSource::model);
}

TEST(tuner_packed, what_breaks_a_rule_leaves_the_choice_to_the_model) {
  const KernelConfig model = planned(RecordBook()).config;
  const NarrowConfig good{.token_blocks = 2, .row_blocks = 2, .warps = 4, .stages = 5};
  std::vector<PackedConfig> bad(8, good);
  std::get<NarrowConfig>(bad[0]).warps = 7;         // valid, but not in the search space
  std::get<NarrowConfig>(bad[1]).stages = 100;      // invalid
  std::get<NarrowConfig>(bad[2]).token_blocks = 4;  // not for 16 tokens
  std::get<NarrowConfig>(bad[3]).parts = 0;
  bad[4] = WideConfig{.tokens = 256};                // tiles would be mostly empty
  bad[5] = WideConfig{.tokens = 32, .x_stages = 9};  // its ring is not in the planner's space
  bad[6] = WideConfig{.tokens = 0};
  bad[7] = WideConfig{.cluster_n = 1024};
  for (std::size_t i = 0; i < bad.size(); ++i) {
    const Plan plan = planned(book_of(std::vector{sample_packed_record(bad[i])}));
    EXPECT_EQ(plan.source, PlanSource::model) << i;
    EXPECT_EQ(plan.config, model) << i;
  }
}

TEST(tuner_packed, a_problem_that_is_refused_is_refused_with_records_too) {
  PackedProblem p = tuned_packed_problem();
  p.ld_x = 4097;
  EXPECT_FALSE(gemm::plan(p, kH200, {}, book_of(std::vector{sample_packed_record()})));
  p = tuned_packed_problem();
  p.m = 0;
  EXPECT_EQ(planned(book_of(std::vector{sample_packed_record()}), p).source, PlanSource::model);
}

}  // namespace
}  // namespace sluice
