// SPDX-License-Identifier: Apache-2.0
// The flags that all verbs share, and problem files: text becomes a problem, and errors name the wrong word.
// Fails if a default, a name or the grammar changes.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include <sluice/bench/parse.h>
#include "cli/requests.h"
#include "tests/packed_problems.h"

namespace sluice::cli {
namespace {

Result<bench::Request> parse(const std::string& line) {
  const Result<std::vector<bench::Request>> list = parse_problem_list(line);
  if (!list) return list.error();
  EXPECT_EQ(list->size(), 1u);
  return list->at(0);
}

const bench::Request& dense(const std::vector<bench::Request>& list, size_t index) {
  return list.at(index);
}

TEST(cli_flags, shape_and_dtype_make_a_problem) {
  const auto request = parse("4096x1024x512 --dtype e4m3");
  ASSERT_TRUE(request);
  const Problem& p = request->problem;
  EXPECT_EQ(p.m, 4096);
  EXPECT_EQ(p.n, 1024);
  EXPECT_EQ(p.k, 512);
  EXPECT_EQ(p.a.type, DType::e4m3);
  EXPECT_EQ(p.b.type, DType::e4m3);
  EXPECT_EQ(p.d.type, DType::bf16);  // the default for fp8 inputs
  EXPECT_EQ(p.accumulate, Accumulate::promoted) << "as C++, C and Python have it";
  EXPECT_EQ(parse("8x8x8 --dtype e5m2 --accumulate fast")->problem.accumulate, Accumulate::fast);
}

TEST(cli_flags, output_bias_and_c_follow_sixteen_bit_inputs) {
  const auto request = parse("--m 1 --n 2 --k 3 --dtype fp16 --bias --residual");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->problem.d.type, DType::fp16);
  EXPECT_EQ(request->problem.epilogue.bias, Bias::column);
  EXPECT_EQ(request->problem.epilogue.bias_type, DType::fp16);
  EXPECT_EQ(request->problem.epilogue.c_type, DType::fp16);
  EXPECT_EQ(request->problem.c.type, DType::fp16);
  EXPECT_EQ(request->beta, 1.0f);  // by default the residual is added unscaled
}

TEST(cli_flags, beta_without_residual_is_zero_and_can_be_told) {
  EXPECT_EQ(parse("8x8x8")->beta, 0.0f);
  EXPECT_EQ(parse("8x8x8 --residual --beta -0.5")->beta, -0.5f);
}

TEST(cli_flags, a_product_added_to_d_has_an_fp32_d_and_may_be_in_any_order) {
  EXPECT_EQ(parse("8x8x8")->problem.epilogue.update, Update::set);
  EXPECT_TRUE(parse("8x8x8")->problem.deterministic);
  const auto request = parse("8x8x8 --dtype e4m3 --update add");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->problem.epilogue.update, Update::add);
  EXPECT_EQ(request->problem.d.type, DType::fp32);
  EXPECT_TRUE(request->problem.deterministic);
  EXPECT_FALSE(parse("8x8x8 --update add --any-order")->problem.deterministic);
  EXPECT_EQ(parse("8x8x8 --update add --d bf16")->problem.d.type, DType::bf16) << "for the planner to refuse";
  EXPECT_FALSE(parse("8x8x8 --update subtract"));
}

TEST(cli_flags, every_epilogue_and_layout_flag_arrives) {
  const auto request = parse(
      "64x64x64 --a-layout mn --b-layout mn --scale-a vector --scale-b tensor --activation silu --d fp32 "
      "--dtype e4m3 --accumulate fast --batch 3 --ld-a 80 --bias --bias-type fp32 --alpha 2 "
      "--batch-stride-a 7000 --batch-stride-b 8000 --batch-stride-d 9000");
  ASSERT_TRUE(request) << request.error().message;
  const Problem& p = request->problem;
  EXPECT_EQ(p.a.major, Major::mn);
  EXPECT_EQ(p.b.major, Major::mn);
  EXPECT_EQ(p.epilogue.scale_a, ScaleMode::vector);
  EXPECT_EQ(p.epilogue.scale_b, ScaleMode::tensor);
  EXPECT_EQ(p.epilogue.activation, Activation::silu);
  EXPECT_EQ(p.epilogue.bias_type, DType::fp32);
  EXPECT_EQ(p.d.type, DType::fp32);
  EXPECT_EQ(p.accumulate, Accumulate::fast);
  EXPECT_EQ(p.batch, 3);
  EXPECT_EQ(p.a.ld, 80);
  EXPECT_EQ(p.a.batch_stride, 7000);
  EXPECT_EQ(p.b.batch_stride, 8000);
  EXPECT_EQ(p.d.batch_stride, 9000);
  EXPECT_EQ(request->alpha, 2.0f);
  const auto blocks = parse("64x64x64 --dtype e4m3 --scale-a block --scale-b block --scale-a-ld 68");
  ASSERT_TRUE(blocks) << blocks.error().message;
  EXPECT_EQ(blocks->problem.scale_a_ld, 68);
  EXPECT_FALSE(parse("64x64x64 --dtype e4m3 --scale-a vector --scale-a-ld 68")) << "it has no effect";
  EXPECT_EQ(parse("64x64x64 --gated --activation clamped_swiglu")->problem.epilogue.activation,
            Activation::clamped_swiglu);
}

TEST(cli_flags, overrides_arrive) {
  const auto request = parse(
      "64x64x64 --schedule ping_pong --tile 128x256 --stages 3 --cluster 2x1 --store direct --raster along_n "
      "--raster-group 4 --clusters 66 --swapped false");
  ASSERT_TRUE(request);
  const PlanOverrides& o = request->overrides;
  EXPECT_EQ(o.schedule, Schedule::ping_pong);
  EXPECT_EQ(o.tile_m, 128);
  EXPECT_EQ(o.tile_n, 256);
  EXPECT_EQ(o.stages, 3);
  EXPECT_EQ(o.cluster, (ClusterShape{.m = 2, .n = 1}));
  EXPECT_EQ(o.store, StorePath::direct);
  EXPECT_EQ(o.raster, Raster::along_n);
  EXPECT_EQ(o.raster_group, 4);
  EXPECT_EQ(o.clusters, 66);
  EXPECT_EQ(o.swapped, false);
  EXPECT_EQ(parse("64x64x64 --swapped true")->overrides.swapped, true);
  EXPECT_FALSE(parse("64x64x64")->overrides.swapped.has_value());
}

TEST(cli_flags, splits_along_k_arrive) {
  const auto parts = parse("64x64x640 --cluster 1x1x4 --splits 3 --workspace-limit 1000000");
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->overrides.cluster, (ClusterShape{.m = 1, .n = 1, .k = 4}));
  EXPECT_EQ(parts->overrides.splits, 3);
  EXPECT_EQ(parts->overrides.workspace_limit, 1000000);
  const auto few = parse("64x64x640 --clusters 7");
  ASSERT_TRUE(few);
  EXPECT_EQ(few->overrides.clusters, 7);
  EXPECT_FALSE(parse("64x64x64 --cluster 1x1x4x2"));
}

TEST(cli_flags, nothing_is_overruled_unless_said) {
  const auto request = parse("64x64x64");
  EXPECT_FALSE(request->overrides.schedule || request->overrides.tile_m || request->overrides.cluster ||
               request->overrides.stages || request->overrides.store || request->overrides.raster);
}

TEST(cli_flags, a_wrong_name_is_answered_with_the_right_ones) {
  const auto request = parse("64x64x64 --dtype fp64");
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(request.error().message.find("fp64"), std::string::npos);
  EXPECT_NE(request.error().message.find("bf16, fp16, fp32, e4m3, e5m2"), std::string::npos);
}

TEST(cli_flags, missing_sizes_and_malformed_ones_are_errors) {
  EXPECT_FALSE(parse("--m 4 --n 4"));
  EXPECT_FALSE(parse("4x4"));
  EXPECT_FALSE(parse("4x4x4x4"));
  EXPECT_FALSE(parse("4x-4x4"));
  EXPECT_FALSE(parse("64x64x64 --tile 128"));
  EXPECT_FALSE(parse("64x64x64 --no-such-flag"));
}

TEST(cli_flags, a_flag_that_nothing_uses_is_refused) {
  const auto refused = [](const std::string& line, const std::string& mention) {
    const auto request = parse(line);
    ASSERT_FALSE(request) << line;
    EXPECT_NE(request.error().message.find(mention), std::string::npos) << request.error().message;
  };
  refused("8x8x8 --m 4", "--m has no effect with --shape");
  refused("8x8x8 --beta 2", "--beta has no effect without --residual");
  refused("8x8x8 --ld-c 16", "--ld-c has no effect without --residual");
  refused("8x8x8 --c-type fp32", "--c-type has no effect without --residual");
  refused("8x8x8 --bias-type fp32", "--bias-type has no effect without --bias");
  refused("8x8x8 --any-order", "--any-order has no effect without --update add");
  refused("8x8x8 --tile 4294967424x128", "4294967424 must be at most 2147483647");
  refused("8x8x8 --cluster 4294967297x1", "must be at most 2147483647");
  refused("8x8x8 --cluster 2x1x", "like 2x1 or 1x1x4");
  refused("--m 010 --n 16 --k 16", "010 must be a decimal number");
  refused("8x8x8 --help", "--help");
  EXPECT_EQ(parse("--m 0 --n 16 --k 10")->problem.m, 0);
}

TEST(cli_flags, a_json_false_is_a_flag_left_out_or_a_word) {
  const auto swapped = [](const char* entry) {
    const auto list = parse_problem_list(entry);
    EXPECT_TRUE(list) << list.error().message;
    return list ? dense(*list, 0).overrides.swapped : std::nullopt;
  };
  EXPECT_EQ(swapped(R"([{"shape": "256x512x512", "swapped": false, "bias": false}])"), false);
  EXPECT_EQ(swapped(R"([{"shape": "256x512x512", "swapped": true, "bias": true}])"), true);
  EXPECT_EQ(swapped(R"([{"shape": "256x512x512", "no-records": false}])"), std::nullopt);
}

TEST(cli_flags, problem_files_are_lines_with_comments) {
  const auto list = parse_problem_list("# two\n\n16x16x16 --bias # first\n--m 1 --n 2 --k 3\n");
  ASSERT_TRUE(list);
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ(dense(*list, 0).problem.epilogue.bias, Bias::column);
  EXPECT_EQ(dense(*list, 1).problem.k, 3);
}

TEST(cli_flags, problem_files_may_be_json_with_flag_names) {
  const auto list = parse_problem_list(
      R"( [{"m": 16, "n": 32, "k": 64, "dtype": "e4m3", "bias": true, "residual": false, "tile": "128x64"}])");
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ(dense(*list, 0).problem.n, 32);
  EXPECT_EQ(dense(*list, 0).problem.epilogue.bias, Bias::column);
  EXPECT_FALSE(dense(*list, 0).problem.epilogue.residual);
  EXPECT_EQ(dense(*list, 0).overrides.tile_n, 64);
}

TEST(cli_flags, problem_files_may_hold_packed_weights_beside_dense_ones) {
  for (const char* text :
       {"16x64x128 --weights int4 --group 64 --warps 4\n16x16x16\n",
        R"([{"shape": "16x64x128", "weights": "int4", "group": 64, "warps": 4}, {"shape": "16x16x16"}])"}) {
    const auto list = parse_problem_list(text);
    ASSERT_TRUE(list) << list.error().message;
    ASSERT_EQ(list->size(), 2u);
    const auto& packed = list->at(0);
    EXPECT_EQ(packed.problem, (PackedProblem{.m = 16, .n = 64, .k = 128, .weights = {.group = 64}}));
    EXPECT_EQ(packed.overrides, PlanOverrides{.warps = 4});
    EXPECT_EQ(dense(*list, 1).problem.m, 16);
  }
  const auto bad = parse_problem_list("16x16x16\n16x64x128 --weights int4 --ld-b 200\n");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("line 2: --ld-b has no effect with --weights"), std::string::npos);
  const auto groups = parse_problem_list("16x64x128 --weights int4 --batch 4 --groups ends\n");
  ASSERT_TRUE(groups) << groups.error().message;
  EXPECT_EQ(groups->at(0).problem.batch, 4);
  EXPECT_EQ(groups->at(0).problem.groups.kind, GroupKind::ends);
  EXPECT_FALSE(parse_problem_list("16x64x128 --group 64\n")) << "no --weights";
}

TEST(cli_flags, an_error_in_a_file_says_where) {
  const auto lines = parse_problem_list("16x16x16\n16x16\n");
  ASSERT_FALSE(lines);
  EXPECT_NE(lines.error().message.find("line 2"), std::string::npos);
  const auto json = parse_problem_list(R"([{"m": 1, "n": 1, "k": 1}, {"size": 4}])");
  ASSERT_FALSE(json);
  EXPECT_NE(json.error().message.find("entry 1"), std::string::npos);
  EXPECT_FALSE(parse_problem_list("[1, 2"));
}

TEST(cli_flags, an_unreadable_or_empty_file_is_an_io_error) {
  EXPECT_EQ(read_problem_file("/no/such/file").error().code, ErrorCode::io);
  EXPECT_EQ(read_problem_file("/dev/null").error().code, ErrorCode::io);
  EXPECT_NE(read_problem_file("/tmp").error().message.find("cannot be read"), std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
