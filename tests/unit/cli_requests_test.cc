// SPDX-License-Identifier: Apache-2.0
// The problems that a verb gets: one, a set or a file, with their overrides. A flag without effect is
// refused. Fails if overrides are lost, or if a flag is accepted but not used.
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <set>

#include "bench/shapes.h"
#include "cli/requests.h"
#include "tests/packed_problems.h"

namespace sluice::cli {
namespace {

/// Parses a command line as `sluice compile` and `sluice bench` do, and returns its requests.
Result<std::vector<bench::Request>> any_requests(const std::string& line) {
  CLI::App app;
  RequestFlags flags;
  add_many_requests_flags(app, flags);
  app.parse(line);
  return requests_of(flags);
}

/// Returns the requests of a command line, which must all be dense.
Result<std::vector<bench::Request>> requests(const std::string& line) {
  const Result<std::vector<bench::Request>> any = any_requests(line);
  if (!any) return any.error();
  std::vector<bench::Request> dense;
  for (const bench::Request& request : *any) dense.push_back(request);
  return dense;
}

class CliRequests : public testing::Test {
 protected:
  CliRequests() : path_(testing::TempDir() + "sluice_requests_" + std::to_string(getpid())) {
    std::ofstream(path_) << "64x64x64 --tile 64x64\n128x64x32\n";
  }
  ~CliRequests() override { std::remove(path_.c_str()); }

  void refused(const std::string& line, const std::string& mention) {
    const auto list = requests(line);
    ASSERT_FALSE(list) << line;
    EXPECT_EQ(list.error().code, ErrorCode::invalid_argument) << line;
    EXPECT_NE(list.error().message.find(mention), std::string::npos) << list.error().message;
  }

  const std::string path_;
};

TEST_F(CliRequests, one_problem_has_its_overrides) {
  const auto list = requests("--shape 64x32x16 --tile 64x64 --alpha 2");
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->size(), 1u);
  EXPECT_EQ(list->at(0).problem.n, 32);
  EXPECT_EQ(list->at(0).overrides.tile_n, 64);
  EXPECT_EQ(list->at(0).alpha, 2.0f);
  refused("--tile 64x64", "a problem needs m, n and k");
}

TEST_F(CliRequests, overrides_go_to_every_problem_of_a_set) {
  const auto list = requests("--set smoke --tile 128x256 --cluster 2x1");
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->size(), bench::problem_set("smoke")->size());
  for (const bench::Request& request : *list) {
    EXPECT_EQ(request.overrides.tile_m, 128);
    EXPECT_EQ(request.overrides.cluster, (ClusterShape{.m = 2, .n = 1}));
  }
}

TEST_F(CliRequests, a_file_says_everything_itself) {
  const auto list = requests("--shapes " + path_);
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ(list->at(0).overrides.tile_m, 64);
  EXPECT_FALSE(list->at(1).overrides.tile_m);
}

TEST_F(CliRequests, a_flag_that_would_have_no_effect_is_refused_by_name) {
  refused("--shapes " + path_ + " --tile 128x128", "--tile has no effect with --shapes");
  refused("--shapes " + path_ + " --dtype e4m3", "--dtype has no effect with --shapes");
  refused("--shapes " + path_ + " --set smoke", "give one of them");
  refused("--set smoke --shape 64x64x64", "--shape has no effect with --set smoke");
  refused("--set smoke --bias", "--bias has no effect with --set smoke");
  refused("--set smok", "no problem set \"smok\"");
}

TEST_F(CliRequests, overrides_go_to_every_problem_of_the_packed_set) {
  const auto list = any_requests("--set packed --warps 4 --no-records");
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->size(), bench::problem_set("packed")->size());
  for (const bench::Request& request : *list)
    EXPECT_EQ(request.overrides, (PlanOverrides{.warps = 4, .ignore_records = true}));
}

TEST_F(CliRequests, the_list_that_packed_records_are_made_from_holds_different_problems) {
  const auto list = any_requests("--shapes " SLUICE_SOURCE_DIR "/bench/shapes/packed.txt");
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(list->size(), 1u + 9 * 8 * 2 * 2);
  std::set<std::string> names;
  for (const bench::Request& request : *list) {
    const bench::Request& item = request;
    EXPECT_EQ(item.overrides, PlanOverrides{});
    names.insert(bench::name_of(item.problem));
  }
  EXPECT_EQ(names.size(), list->size());
}

TEST_F(CliRequests, flags_of_the_other_kind_of_set_are_refused_by_name) {
  refused("--set packed --weights int4", "--weights has no effect with --set packed");
  refused("--set packed --shape 1x1x1", "--shape has no effect with --set packed");
  refused("--set smoke --group 64", "--group has no effect with --set smoke");
  refused("--shapes " + path_ + " --w-stages 4", "--w-stages has no effect with --shapes");
  refused("--shapes " + path_ + " --weights int4", "--weights has no effect with --shapes");
  refused("--shape 1x64x64 --group 64", "--group has no effect without --weights");
  EXPECT_NE(any_requests("--set smok").error().message.find(", packed"), std::string::npos);
}

TEST_F(CliRequests, the_layers_of_a_model_are_separate_and_listed_once) {
  const auto row = requests("--model llama3-8b --recipe row --tokens 16");
  ASSERT_TRUE(row) << row.error().message;
  std::vector<std::string> names;
  for (const bench::Request& request : *row) names.push_back(bench::shape_text(request.problem));
  EXPECT_EQ(names,
            (std::vector<std::string>{"16x4096x4096", "16x1024x4096", "16x14336x4096", "16x4096x14336"}));
  const Problem expected{.m = 16,
                         .n = 4096,
                         .k = 4096,
                         .a = {.type = DType::e4m3},
                         .b = {.type = DType::e4m3},
                         .epilogue = {.scale_a = ScaleMode::vector, .scale_b = ScaleMode::vector}};
  EXPECT_EQ(row->front().problem, expected);
  EXPECT_EQ(row->front().overrides, PlanOverrides{});
  EXPECT_EQ(requests("--model llama3-8b --recipe none")->size(), 4u * 7) << "1,4,16,64,256,1024,4096 tokens";
  const auto int4 = any_requests("--model 1280x8192 --recipe int4 --tokens 4");
  ASSERT_EQ(int4->size(), 1u);
  EXPECT_EQ(int4->front().problem,
            (PackedProblem{.m = 4, .n = 1280, .k = 8192, .weights = {.scale = DType::bf16}}));
}

TEST_F(CliRequests, a_model_comes_from_its_config_json_and_alone) {
  const std::string config = path_ + ".json";
  std::ofstream(config) << R"({"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16,)"
                        << R"("num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu"})";
  const auto block = requests("--model " + config + " --recipe block --tokens 1,2");
  std::remove(config.c_str());
  ASSERT_TRUE(block) << block.error().message;
  ASSERT_EQ(block->size(), 5u * 2) << "q 2048, k and v 1024, o, gate and up, down";
  EXPECT_EQ(bench::shape_text(block->at(1).problem), "2x2048x1024");
  EXPECT_EQ(bench::shape_text(block->at(4).problem), "1x1024x2048");
  refused("--model llama3-8b", "--model needs --recipe");
  refused("--model llama3-8b --recipe rows", "--recipe \"rows\" is not one of");
  refused("--model gpt --recipe row", "--model \"gpt\" is not one of");
  refused("--model llama3-8b --recipe row --set smoke", "give one of them");
  refused("--model llama3-8b --recipe row --shapes " + path_, "give one of them");
  refused("--model llama3-8b --recipe row --dtype e4m3", "--dtype has no effect with --model llama3-8b");
  refused("--model llama3-8b --recipe row --tile 64x64", "--tile has no effect with --model llama3-8b");
  refused("--shape 8x8x8 --recipe row", "--recipe has no effect without --model");
  refused("--tokens 4", "--tokens has no effect without --model");
}

}  // namespace
}  // namespace sluice::cli
