// SPDX-License-Identifier: Apache-2.0
// `sluice chain` without a GPU: the cases that flags describe, the output, and a whole session on the fake
// driver. Nothing is computed there, so all results are equal. To see it fail: leave out `* spec.passes` in
// time_arms.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/chain/check.h"
#include "cli/chain/flags.h"
#include "cli/chain/table.h"
#include "lab_fixture.h"
#include "run_tool.h"
#include "tests/idle_steps.h"

namespace sluice::cli {
namespace {

Result<std::vector<bench::ChainCase>> parsed(const std::string& arguments) {
  CLI::App app;
  ChainFlags flags;
  add_chain_flags(app, flags);
  app.parse(arguments);
  return cases_of(flags);
}
std::string arm_names(const bench::ChainCase& item) {
  std::string names;
  for (const bench::ArmSpec& arm : item.arms) names += arm.name + ";";
  return names;
}
std::string refusal(const std::string& arguments) {
  const auto cases = parsed(arguments);
  return cases.ok() ? "" : cases.error().message;
}

TEST(cli_chain, a_case_for_each_number_of_tokens) {
  const auto cases = parsed("--model qwen3-8b --tokens 1,16 --weights bf16 --projections --layers 3");
  ASSERT_TRUE(cases.ok()) << cases.error().message;
  ASSERT_EQ(cases->size(), 2u);
  const bench::LayerSpec& spec = (*cases)[1].spec;
  EXPECT_EQ(name_of(spec), "qwen3-8b bf16, 16 tokens, projections");
  EXPECT_EQ(spec.layers, 3);
  EXPECT_EQ(arm_names((*cases)[1]), "weights_first;tuned;");
}

TEST(cli_chain, sums_are_promoted_unless_told) {
  EXPECT_EQ(parsed("--tokens 1")->front().spec.accumulate, Accumulate::promoted);
  EXPECT_EQ(name_of(parsed("--tokens 1")->front().spec), "llama3-8b e4m3 promoted, 1 token");
  const auto fast = parsed("--tokens 1 --accumulate fast");
  ASSERT_TRUE(fast.ok()) << fast.error().message;
  EXPECT_EQ(name_of(fast->front().spec), "llama3-8b e4m3, 1 token") << "the name of stored results";
  EXPECT_EQ(problem_of(fast->front().spec, bench::LayerProduct::qkv).accumulate, Accumulate::fast);
  EXPECT_NE(refusal("--weights bf16 --accumulate fast").find("sums of bf16 products are in fp32"),
            std::string::npos);
}

TEST(cli_chain, arms) {
  const auto staged = parsed("--stages 2,4 --half --hand-off 65536 --trigger after_loads --tokens 1");
  ASSERT_TRUE(staged.ok()) << staged.error().message;
  const std::vector<bench::ArmSpec>& arms = (*staged)[0].arms;
  ASSERT_EQ(arms.size(), 2u);
  EXPECT_EQ(arms[1].name, "tuned, after_loads, half, hand-off 64 KB, 4 stages") << "tuned is the default";
  EXPECT_EQ(arms[1].options.most_stages, 4);
  EXPECT_EQ(arms[1].options.smem_limit, kHalfFootprint);
  EXPECT_EQ(arms[1].options.hand_off_bytes, 65536);
  EXPECT_EQ(arms[1].options.trigger, Trigger::after_loads);
}

TEST(cli_chain, arms_for_each_fusion_with_an_off_of_their_own) {
  const auto cases = parsed("--fuse none,residual --tune 3 --tokens 1");
  ASSERT_TRUE(cases.ok()) << cases.error().message;
  EXPECT_EQ(arm_names((*cases)[0]),
            "weights_first;tuned;tuning;off, fused: residual;weights_first, fused: residual;tuned, fused: "
            "residual;tuning, fused: residual;");
  EXPECT_EQ((*cases)[0].arms[3].fusion, bench::Fusion::residual);
  EXPECT_EQ((*cases)[0].arms[3].options.overlap, ChainOverlap::off);
  EXPECT_EQ((*cases)[0].arms[6].tune_s, 3);
}

TEST(cli_chain, refusals_list_what_there_is) {
  EXPECT_NE(refusal("--model gpt").find("llama3-8b"), std::string::npos);
  EXPECT_NE(refusal("--weights fp4").find("int4"), std::string::npos);
  EXPECT_NE(refusal("--overlap on").find("off, wait_first, weights_first"), std::string::npos);
  EXPECT_NE(refusal("--trigger late").find("never, at_start, after_loads"), std::string::npos);
  EXPECT_NE(refusal("--against torch").find("cublaslt"), std::string::npos);
  EXPECT_NE(refusal("--fuse all").find("none, gated, residual"), std::string::npos);
  EXPECT_NE(refusal("--fuse gated --projections").find("nothing to fuse"), std::string::npos);
  EXPECT_NE(refusal("--fuse residual --weights int4 --activations e4m3").find("say gated"),
            std::string::npos);
  EXPECT_NE(refusal("--fuse norm").find("--weights int4"), std::string::npos);
  EXPECT_NE(refusal("--fuse norm --weights int4 --tokens 16").find("at most 8 tokens, not 16"),
            std::string::npos);
  EXPECT_NE(refusal("--spacing far").find("memory, registers, none"), std::string::npos);
}

TEST(cli_chain, flags_without_effect_are_refused) {
  const std::pair<const char*, const char*> idle[] = {
      {"--half --weights int4", "--half has no effect on packed weights"},
      {"--stages 2 --weights int4", "--stages has no effect on packed weights"},
      {"--overlap off --trigger at_start", "--trigger has no effect with the overlap off"},
      {"--overlap off --hand-off 4096", "--hand-off has no effect with the overlap off"},
      {"--overlap off --prefetch 4096", "--prefetch has no effect with the overlap off"},
      {"--overlap off --spacing none", "--spacing has no effect with the overlap off"},
      {"--tune 5 --layers 3", "the tuner needs at least 4 layers"}};
  for (const auto& [arguments, mention] : idle)
    EXPECT_NE(refusal(arguments).find(mention), std::string::npos) << arguments << ": " << refusal(arguments);
  EXPECT_EQ(refusal("--tune 5 --layers 4"), "");
}

TEST(cli_chain, numbers_below_zero_are_refused_in_a_short_line) {
  for (const char* flag : {"--hand-off", "--prefetch", "--replays", "--tune"}) {
    CLI::App app;
    ChainFlags flags;
    add_chain_flags(app, flags);
    try {
      app.parse(std::string(flag) + "=-1");
      ADD_FAILURE() << flag;
    } catch (const CLI::ParseError& error) {
      EXPECT_NE(std::string(error.what()).find("must be a number that is not negative"), std::string::npos)
          << error.what();
      EXPECT_LT(std::string(error.what()).size(), 100u);
    }
  }
}

bench::ChainRecord record() {
  bench::ChainRecord made{.layer_weight_bytes = 230'000'000};
  made.arms = {{.name = bench::kChainOff, .us = {60, 59, 61}, .kernels = 4, .differing = 0},
               {.name = "weights_first, at_start",
                .us = {50, 49, 51},
                .programmatic_edges = 3,
                .differing = 0,
                .replays = 7},
               {.name = "broken", .differing = 5},
               {.name = "failed", .error = "toolchain: no"},
               {.name = bench::kChainPeer, .us = {75, 74, 76}, .distance = 0.0125}};
  return made;
}

TEST(cli_chain, table) {
  const std::string text = chain_header() + chain_lines(record());
  EXPECT_NE(text.find("us per layer"), std::string::npos) << text;
  EXPECT_NE(text.find("50.00"), std::string::npos) << text;
  EXPECT_NE(text.find("100.0 %"), std::string::npos) << "230 MB in 50 us are 4.6 TB/s\n" << text;
  EXPECT_NE(text.find("1.200"), std::string::npos) << "off over it\n" << text;
  EXPECT_NE(text.find("1.500"), std::string::npos) << "cuBLASLt over it\n" << text;
  EXPECT_NE(text.find("yes, 7"), std::string::npos) << text;
  EXPECT_NE(text.find("not timed: 5 pieces"), std::string::npos) << text;
  EXPECT_NE(text.find("toolchain: no"), std::string::npos) << text;
}

TEST(cli_chain, json) {
  const auto json = nlohmann::json::parse(bench::to_json(bench::RunRecord{.gpu = "H200"}, {record()}));
  EXPECT_EQ(json["schema"], "sluice-chain-1");
  EXPECT_EQ(json["machine"]["gpu"], "H200");
  EXPECT_FALSE(json.contains("shapes"));
  const auto& arms = json["chains"][0]["arms"];
  EXPECT_EQ(arms[1]["us_a_layer"]["median"], 50.0);
  EXPECT_EQ(arms[1]["ratios"]["cuBLASLt"], 1.5);
  EXPECT_EQ(arms[2]["differing"], 5);
  EXPECT_FALSE(arms[2].contains("us_a_layer"));
  EXPECT_EQ(arms[3]["error"], "toolchain: no");
}

class ChainSession : public bench::LabFixture {
 protected:
  ChainSession() : LabFixture({.rounds = 3}) {}

  static bench::ChainCase small_case(bench::LayerWeights weights, bench::LayerParts parts) {
    return {.spec = {.model = {"small", 256, 384, 256, 512},
                     .weights = weights,
                     .parts = parts,
                     .tokens = 4,
                     .layers = 2,
                     .passes = 2},
            .arms = {{.name = "weights_first", .options = {.hand_off_bytes = 4096, .prefetch_bytes = 8192}}},
            .replays = 9,
            .on_fake = true};
  }
};

TEST_F(ChainSession, times_no_arm_whose_products_are_wrong) {
  for (const bench::LayerWeights weights : {bench::LayerWeights::e4m3, bench::LayerWeights::int4}) {
    bench::ChainCase item = small_case(weights, bench::LayerParts::all);
    item.on_fake = false;
    const bench::ChainRecord record = measure_chain(*lab_, item, bench::kSilent);
    EXPECT_NE(record.error.find("is wrong"), std::string::npos) << record.error;
    EXPECT_TRUE(record.arms.empty());
  }
}

/// Accepts the distances that recorded chains have had on an H200 (bench/results/h200/chains), and refuses a
/// larger one.
TEST(chain_distance, allows_what_was_measured_and_not_much_more) {
  const auto spec = [](bench::LayerWeights weights, bench::LayerParts parts) {
    return bench::LayerSpec{.weights = weights, .parts = parts, .layers = 8, .passes = 4};
  };
  const struct {
    bench::LayerSpec spec;
    double measured;
  } cases[] = {{spec(bench::LayerWeights::e4m3, bench::LayerParts::all), 0.0895},
               {spec(bench::LayerWeights::int4, bench::LayerParts::all), 0.0181},
               {spec(bench::LayerWeights::e4m3, bench::LayerParts::projections), 0.444}};
  for (const auto& [of, measured] : cases) {
    EXPECT_GT(bench::most_distance(of), 1.1 * measured) << name_of(of);
    EXPECT_LT(bench::most_distance(of), 5 * measured) << name_of(of);
    EXPECT_LE(bench::most_distance(of), 0.7) << "no D at all is 1 away";
  }
}

TEST_F(ChainSession, measures_every_kind_and_gives_everything_back) {
  for (const bench::LayerWeights weights :
       {bench::LayerWeights::e4m3, bench::LayerWeights::bf16, bench::LayerWeights::int4})
    for (const bench::LayerParts parts : {bench::LayerParts::all, bench::LayerParts::projections}) {
      const bench::ChainCase item = small_case(weights, parts);
      const Alive before = driver_.alive();
      const bench::ChainRecord record = measure_chain(*lab_, item, bench::kSilent);
      Alive after = driver_.alive();
      after.modules = before.modules;  // kernels may stay loaded
      EXPECT_EQ(after, before) << name_of(item.spec);
      EXPECT_EQ(record.error, "") << name_of(item.spec);
      ASSERT_EQ(record.arms.size(), 2u) << name_of(item.spec);
      const bench::ArmRecord& arm = record.arms[1];
      EXPECT_TRUE(arm.right()) << arm.error;
      EXPECT_EQ(arm.replays, 9);
      EXPECT_EQ(arm.kernels, record.arms[0].kernels);
      EXPECT_EQ(record.arms[0].programmatic_edges, 0);
      EXPECT_DOUBLE_EQ(arm.us.median, 250.0 / 4) << "the fake's clock: 0.25 ms, four layers";
      EXPECT_EQ(arm.programmatic_edges, arm.kernels - 1);
    }
}

TEST_F(ChainSession, measures_every_fusion) {
  int measured = 0;
  for (const bench::LayerWeights weights :
       {bench::LayerWeights::e4m3, bench::LayerWeights::bf16, bench::LayerWeights::int4})
    for (const bench::Fusion fusion : {bench::Fusion::gated, bench::Fusion::residual, bench::Fusion::norm}) {
      bench::ChainCase item = small_case(weights, bench::LayerParts::all);
      if (why_not_fused(item.spec, fusion) != nullptr) continue;
      item.arms = {{.name = "fused", .fusion = fusion}};
      const bench::ChainRecord record = measure_chain(*lab_, item, bench::kSilent);
      EXPECT_EQ(record.error, "") << name_of(item.spec);
      ASSERT_EQ(record.arms.size(), 2u) << name_of(item.spec);
      // The fake kernels compute nothing, so no residual is added. Only the results of fused chains may
      // differ.
      const bench::ArmRecord& fused = record.arms[1];
      EXPECT_TRUE(fused.right() || fused.error.find("of their RMS") != std::string::npos)
          << name_of(fusion) << ": " << fused.error;
      EXPECT_LT(record.arms[1].kernels, record.arms[0].kernels);
      ++measured;
    }
  EXPECT_GE(measured, 5);
}

TEST_F(ChainSession, foreign_steps_stand_in_every_layer) {
  const auto idle = [&](const test::IdleSpec& spec) { return *test::idle_steps(lab_->device, spec); };
  for (const auto& [before, count] : {std::pair("down", 1), std::pair("all", 4)}) {
    bench::ChainCase item = small_case(bench::LayerWeights::e4m3, bench::LayerParts::all);
    item.arms = {{.name = "none"},
                 {.name = "idle", .add = idle({.before = before})},
                 {.name = "across", .add = idle({.before = before, .hand_off_bytes = 4096})},
                 {.name = "early", .add = idle({.before = before, .overlapped = true})}};
    const bench::ChainRecord record = measure_chain(*lab_, item, bench::kSilent);
    EXPECT_EQ(record.error, "");
    ASSERT_EQ(record.arms.size(), 5u);
    const int layers = 4, all = layers * count, none = record.arms[1].kernels;
    for (const bench::ArmRecord& arm : record.arms) EXPECT_TRUE(arm.right()) << arm.error;
    EXPECT_EQ(record.arms[2].kernels, none + all);
    EXPECT_EQ(record.arms[3].kernels, none + all);
    EXPECT_EQ(record.arms[2].programmatic_edges, none - 1 - all);
    EXPECT_EQ(record.arms[4].programmatic_edges, none - 1);
    EXPECT_NE(record.arms[3].text.find("1 foreign"), std::string::npos) << record.arms[3].text;
  }
}

TEST_F(ChainSession, lost_edges_and_a_missing_peer_are_errors_of_their_arm) {
  driver_.make_edges_full();
  bench::ChainCase item = small_case(bench::LayerWeights::e4m3, bench::LayerParts::projections);
  item.against_peer = true;
  const bench::ChainRecord record = measure_chain(*lab_, item, bench::kSilent);
  EXPECT_EQ(record.error, "");
  ASSERT_EQ(record.arms.size(), 3u);
  EXPECT_TRUE(record.arms[0].right());
  EXPECT_NE(record.arms[1].error.find("programmatic edges"), std::string::npos) << record.arms[1].error;
  EXPECT_NE(record.arms[2].error.find("no/such/libcublasLt"), std::string::npos) << record.arms[2].error;
}

TEST(cli_chain, the_tool_explains_and_refuses_without_a_gpu) {
  const Outcome plan = run_tool("SLUICE_RECORDS_DIR=",
                                "chain --device host --projections --tokens 16 --explain --hand-off 1048576");
  EXPECT_EQ(plan.code, 0) << plan.text;
  EXPECT_TRUE(plan.has("gate_up  16x28672x4096")) << plan.text;
  EXPECT_TRUE(plan.has("wait weights_first, trigger at_start, hand-off 1.05 MB")) << plan.text;
  EXPECT_TRUE(plan.has("all 8 steps")) << plan.text;
  const Outcome without = run_tool("SLUICE_RECORDS_DIR=", "chain --device host --tokens 17 --explain");
  EXPECT_TRUE(
      without.has("tuned, the first 2 of 8 layers\nno record of these steps on this GPU: as weights_first"))
      << without.text;
  const Outcome recorded = run_tool(
      "SLUICE_RECORDS_DIR=", "chain --accumulate fast --device host --tokens 16 --fuse gated --explain");
  EXPECT_FALSE(recorded.has("no record of these steps")) << recorded.text;
  const Outcome many = run_tool("SLUICE_RECORDS_DIR=", "chain --device host --explain --tokens 65536");
  EXPECT_EQ(many.code, 0) << many.text;
  for (const char* idle : {"--json /nope/x", "--replays 5", "--tune 5", "--rounds 3"}) {
    const Outcome said =
        run_tool("SLUICE_RECORDS_DIR=", std::string("chain --device host --explain ") + idle);
    EXPECT_EQ(said.code, 2) << idle;
    EXPECT_TRUE(said.has("has no effect without a GPU")) << said.text;
  }
  const Outcome refused = run_tool("SLUICE_RECORDS_DIR=", "chain --device host");
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(refused.has("--explain and --compile-only")) << refused.text;
}

}  // namespace
}  // namespace sluice::cli
