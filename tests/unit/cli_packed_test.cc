// SPDX-License-Identifier: Apache-2.0
// --weights on the command line: the problem that it describes, refusals, and records and targets of a packed
// bench. To see it fail: remove a name from kShared, or compare with the slower FP8 product.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstring>

#include <sluice/plan/dense/problem_checks.h>

#include "bench/shapes.h"
#include "cli/bench_table.h"
#include "cli/packed_bars.h"
#include "cli/requests.h"
#include "tests/packed_problems.h"

namespace sluice::cli {
namespace {

Result<bench::Request> parse(const std::string& line) {
  CLI::App app;
  RequestFlags request;
  add_request_flags(app, request);
  app.parse(line);
  const Result<bench::Request> made = request_of(request);
  if (!made) return made.error();
  return *made;
}

void refused(const std::string& line, const std::string& mention) {
  const auto item = parse(line);
  ASSERT_FALSE(item) << line;
  EXPECT_EQ(item.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(item.error().message.find(mention), std::string::npos) << item.error().message;
}

TEST(cli_packed, flags_make_a_problem) {
  const auto item = parse(
      "--shape 16x3584x8192 --weights uint4 --group 64 --weight-scale bf16 --zero per_group --dtype bf16 "
      "--d fp32 --bias --activation silu --ld-a 8200 --ld-d 4000 --warps 4 --stages 3 --cluster 1x1x2");
  ASSERT_TRUE(item) << item.error().message;
  const PackedProblem expected{.m = 16,
                               .n = 3584,
                               .k = 8192,
                               .x = DType::bf16,
                               .d = DType::fp32,
                               .weights = {.group = 64, .scale = DType::bf16, .zero = ScaleZero::per_group},
                               .bias = Bias::column,
                               .bias_type = DType::fp32,
                               .activation = Activation::silu,
                               .ld_x = 8200,
                               .ld_d = 4000};
  EXPECT_EQ(*check_problem(item->problem), *check_problem(expected)) << to_string(item->problem);
  EXPECT_EQ(item->overrides, (PlanOverrides{.stages = 3, .warps = 4, .cluster = ClusterShape{.k = 2}}));
}

TEST(cli_packed, norms_and_residuals_have_flags) {
  const auto item =
      parse("--shape 2x64x128 --weights int4 --dtype bf16 --norm-a --residual --ld-c 72 --ld-d 80");
  ASSERT_TRUE(item) << item.error().message;
  EXPECT_EQ(item->problem, (PackedProblem{.m = 2,
                                          .n = 64,
                                          .k = 128,
                                          .x = DType::bf16,
                                          .d = DType::bf16,
                                          .norm_a = true,
                                          .residual = true,
                                          .ld_d = 80,
                                          .ld_c = 72}))
      << to_string(item->problem);
  refused("--shape 2x64x128 --weights int4 --ld-c 72", "--ld-c has no effect without --residual");
  refused("--shape 2x64x128 --norm-a", "--norm-a has no effect without --weights");
}

TEST(cli_packed, int4_is_symmetric_uint4_and_tokens_are_bf16) {
  const auto item = parse("--shape 1x64x128 --weights int4");
  ASSERT_TRUE(item) << item.error().message;
  EXPECT_EQ(item->problem, (PackedProblem{.m = 1, .n = 64, .k = 128}));
  EXPECT_EQ(item->problem.a.type, DType::bf16);
  EXPECT_EQ(parse("--shape 1x64x128 --weights e4m3")->problem.b.packed.type, WeightType::e4m3);
  EXPECT_EQ(parse("--shape 1x64x128 --weights e2m1")->problem.b.packed, kMxfp4) << "group and scales too";
  EXPECT_EQ(parse("--shape 1x64x128 --weights e2m1 --group 32 --weight-scale e8m0")->problem.b.packed,
            kMxfp4);
  refused("--shape 1x64x128 --weights none",
          "--weights \"none\" is not one of: int4, uint4, int8, e4m3, e2m1");
}

TEST(cli_packed, every_choice_of_the_kernels_has_a_flag) {
  const auto narrow = parse(
      "--shape 1x64x128 --weights int4 --schedule narrow --tile 8x32 --warps 3 --stages 4 --cluster 1x1x8 "
      "--ctas 2");
  ASSERT_TRUE(narrow) << narrow.error().message;
  EXPECT_EQ(narrow->overrides, (PlanOverrides{.schedule = Schedule::narrow,
                                              .tile_m = 8,
                                              .tile_n = 32,
                                              .stages = 4,
                                              .warps = 3,
                                              .ctas = 2,
                                              .cluster = ClusterShape{.k = 8}}));
  const auto wide = parse(
      "--shape 99x64x128 --weights int4 --schedule wide --tile 64x128 --cluster 1x2 --stages 7 --w-stages 3 "
      "--no-records");
  ASSERT_TRUE(wide) << wide.error().message;
  EXPECT_EQ(wide->overrides, (PlanOverrides{.schedule = Schedule::wide,
                                            .tile_m = 64,
                                            .tile_n = 128,
                                            .stages = 7,
                                            .w_stages = 3,
                                            .cluster = ClusterShape{.n = 2},
                                            .ignore_records = true}));
  const Result<Plan> plan = gemm::plan(wide->problem, DeviceInfo{}, wide->overrides);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->config.schedule, Schedule::wide);
  EXPECT_EQ(plan->config.stages, 7);
  EXPECT_EQ(plan->config.cluster.n, 2);
}

TEST(cli_packed, an_override_that_breaks_a_rule_is_refused_with_value_and_rule) {
  const auto message = [](const std::string& flags) {
    const auto item = parse("--shape 64x256x512 --weights int4 " + flags);
    EXPECT_TRUE(item) << flags;
    const Result<Plan> plan = gemm::plan(item->problem, DeviceInfo{}, item->overrides);
    EXPECT_FALSE(plan) << flags;
    return plan ? "" : plan.error().message;
  };
  const auto expect = [&](const std::string& flags, const char* value, const char* rule) {
    const std::string text = message(flags);
    EXPECT_NE(text.find(value), std::string::npos) << text;
    EXPECT_NE(text.find(rule), std::string::npos) << text;
    EXPECT_NE(text.find("; give fewer overrides"), std::string::npos) << text;
  };
  expect("--tile 44x128", "tile_m = 44, tile_n = 128", "must be a multiple of 8");
  expect("--schedule wide --tile 44x128", "schedule = wide, tile_m = 44",
         "must be a multiple of 8 in 8..256");
  const auto of_file = [](const std::string& flags) {
    return parse_problem_list("64x256x512 --weights int4 " + flags).error().message;
  };
  EXPECT_EQ(of_file("--stages 1"), "line 1: --stages: 1 must be in 2..32");
  EXPECT_EQ(of_file("--w-stages 17"), "line 1: --w-stages: 17 must be in 1..16");
  EXPECT_NE(message("--tile 64x128 --cluster 1x2 --warps 2").find("ask for one of them"), std::string::npos);
  EXPECT_NE(message("--splits 2").find("are for weights that are not packed"), std::string::npos);
}

TEST(cli_packed, e4m3_tokens_take_weights_in_the_order_byte) {
  const auto item = parse(
      "--shape 16x64x128 --weights int4 --group 64 --dtype e4m3 --scale-a vector --stages 3 --tile 32x128 "
      "--k-groups 1");
  ASSERT_TRUE(item) << item.error().message;
  const PackedProblem expected{.m = 16,
                               .n = 64,
                               .k = 128,
                               .x = DType::e4m3,
                               .scale_x = ScaleMode::vector,
                               .d = DType::bf16,
                               .weights = {.group = 64, .order = FragmentOrder::byte},
                               .bias_type = PackedProblem{}.bias_type};
  EXPECT_EQ(*check_problem(item->problem), *check_problem(expected)) << to_string(item->problem);
  EXPECT_EQ(item->overrides, (PlanOverrides{.tile_m = 32, .tile_n = 128, .stages = 3, .k_groups = 1}));
  EXPECT_EQ(parse("--shape 16x64x128 --weights int8 --dtype e4m3")->problem.b.packed.order,
            FragmentOrder::half)
      << "the planner says that 8-bit weights go with 16-bit tokens";
}

TEST(cli_packed, refuses_what_has_no_effect) {
  refused("--shape 1x64x128 --group 64", "without --weights");
  refused("--shape 1x64x128 --weights int4 --zero per_group", "uint4");
  refused("--shape 1x64x128 --weights int5", "int5");
  for (const char* flag : {"--scale-b tensor", "--ld-b 200", "--alpha 2", "--b-layout mn", "--a bf16"})
    refused(std::string("--shape 1x64x128 --weights int4 ") + flag,
            std::string(flag, std::strcspn(flag, " ")) + " has no effect");
}

bench::ContenderRecord timed(const char* name, double us) {
  return {.name = name, .us = {.median = us, .p10 = us, .p90 = us}, .verified = true};
}
bench::ShapeRecord shape(const PackedProblem& p, double us, double fp8) {
  return {
      .problem = p,
      .contenders = {timed(bench::kSluice, us), timed(bench::kReadFloor, 5), timed(bench::kFp8PeerBest, fp8),
                     timed(bench::kSluiceFp8, fp8 + 1), timed(bench::kHalfPeerBest, 2 * fp8)}};
}

TEST(cli_packed, bars_compare_with_the_faster_fp8_product) {
  bench::RunRecord run;
  run.shapes = {shape({.m = 16, .n = 3584, .k = 8192, .weights = {.group = 64}}, 5.5, 9.0),
                shape({.m = 1, .n = 8192, .k = 8192, .weights = {.group = 64}}, 10, 18),
                shape({.m = 1, .n = 1280, .k = 8192, .weights = {.group = 64}}, 10, 11)};
  EXPECT_DOUBLE_EQ(bench::ratio(run.shapes[0], bench::kSluice, bench::kBestFp8), 9.0 / 5.5);
  const std::string text = packed_bars(run, false);
  EXPECT_NE(text.find("met:     1: 16x3584x8192 g64 takes 0.611 of FP8's time"), std::string::npos) << text;
  EXPECT_NE(text.find("met:     1: and 1.100 of a plain read"), std::string::npos) << text;
  EXPECT_NE(text.find("NOT met: 2: all: geometric mean 1.407"), std::string::npos) << text;
  EXPECT_NE(text.find("met:     2: weights of 64 M elements and more: geometric mean 1.800"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("met:     2: the two smallest layers: least 1.100 (bar 1.00)"), std::string::npos)
      << text;
  run.shapes[1].contenders[0].verified = false;
  EXPECT_EQ(packed_bars(run, false).find("64 M"), std::string::npos) << "a wrong kernel has no speed";
  EXPECT_NE(shape_line(run, run.shapes[1], true).find("NO"), std::string::npos);
  EXPECT_EQ(packed_bars({}, true), "");
}

TEST(cli_packed, bars_are_of_each_type_of_tokens_and_of_the_faster) {
  const PackedProblem half{
      .m = 16, .n = 8192, .k = 8192, .x = DType::fp16, .d = DType::fp16, .weights = {.group = 64}};
  PackedProblem byte = half;
  byte.x = DType::e4m3;
  byte.weights.order = FragmentOrder::byte;
  const auto with = [](PackedProblem p, i64 m) {
    p.m = m;
    return p;
  };
  bench::RunRecord run;
  run.shapes = {shape(half, 10, 16),
                shape(byte, 8, 16),
                shape(with(half, 32), 10, 18),
                shape(with(byte, 32), 12, 18),
                shape(with(half, 64), 25, 12),
                shape(with(byte, 64), 10, 14),
                shape(with(byte, 128), 10, 10.5)};
  const std::string text = packed_bars(run, false);
  for (const char* line :
       {"met:     2: 16-bit tokens, all: geometric mean 1.697 x FP8's speed over 2 shapes, least 1.600 (bar",
        "met:     2: e4m3 tokens, all: geometric mean 1.732",
        "met:     2: the faster of both, all: geometric mean 1.897",
        "NOT met: 3: 16-bit tokens, 64 tokens: least 0.480 (bar 1.00)",
        "met:     3: e4m3 tokens, 64 tokens: geometric mean 1.400",
        "NOT met: 3: e4m3 tokens, 128 tokens: geometric mean 1.050"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(cli_packed, records_say_what_was_packed) {
  bench::RunRecord run;
  run.shapes = {
      shape({.m = 16, .n = 3584, .k = 8192, .x = DType::fp16, .d = DType::fp16, .weights = {.group = 64}},
            5.5, 9.0)};
  const std::string json = bench::to_json(run);
  for (const char* text : {"\"16x3584x8192 fp16 * uint4 g64 > fp16\"", "\"weight_bytes\": 15597568.0",
                           "\"best FP8 / sluice\": 1.636", "\"read floor / sluice\": 0.909", "\"group\": 64"})
    EXPECT_NE(json.find(text), std::string::npos) << text << "\n" << json;
  EXPECT_NE(summary_text(run).find("best FP8"), std::string::npos);
}

TEST(cli_packed, the_set_is_the_bars) {
  const std::vector<Problem> problems = *bench::problem_set("packed");
  EXPECT_EQ(problems.size(), 1u + 2 * 5 * 8 + 2 * 6 * 8);
  for (const Problem& problem : problems) EXPECT_TRUE(gemm::plan(problem, DeviceInfo{}).ok());
}

}  // namespace
}  // namespace sluice::cli
