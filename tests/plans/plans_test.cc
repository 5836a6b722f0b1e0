// SPDX-License-Identifier: Apache-2.0
// Compares every line of tests/plans/*.txt with the planner's answer. A change of its heuristics shows as a
// diff of these files: run with SLUICE_UPDATE_PLANS=1, read the diff, commit it. Any other choice, split or
// message makes it fail. `a_wrong_expectation_is_found` tests the reader of the files.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "plan_file.h"

namespace sluice::plans {
namespace {

std::vector<std::filesystem::path> plan_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(SLUICE_SOURCE_DIR "/tests/plans"))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Returns the differences between a file and the planner's answers, as text; empty if there are none.
std::string differences(const std::string& name, const std::string& text) {
  std::string found;
  for (const Entry& entry : parse_file(text)) {
    if (!entry.request) continue;
    const Result<Request> request = parse_request(entry.text);
    const std::string now = request ? outcome(*request) : request.error().message;
    if (now != entry.expected)
      found += name + ":" + std::to_string(entry.line) + ": " + entry.text + "\n  - " + entry.expected +
               "\n  + " + now + "\n";
  }
  return found;
}

TEST(plans, are_what_the_files_say) {
  const std::vector<std::filesystem::path> files = plan_files();
  ASSERT_GE(files.size(), 4u) << "no plan files in " SLUICE_SOURCE_DIR "/tests/plans";
  const bool update = std::getenv("SLUICE_UPDATE_PLANS") != nullptr;
  for (const std::filesystem::path& path : files) {
    const std::string text = contents(path);
    if (update) {
      std::ofstream(path) << regenerate(parse_file(text));
      continue;
    }
    const std::string found = differences(path.filename().string(), text);
    EXPECT_TRUE(found.empty()) << found << "If this is wanted: SLUICE_UPDATE_PLANS=1, then read the diff.";
  }
}

TEST(plans, a_wrong_expectation_is_found) {
  const std::string good = regenerate(parse_file("# a comment\n\n512x512x512 bf16\n"));
  EXPECT_EQ(differences("good", good), "");
  std::string bad = good;
  bad.replace(bad.find(" waves") - 1, 1, "9");
  EXPECT_NE(differences("bad", bad).find("bad:3: 512x512x512 bf16\n  - "), std::string::npos);
  EXPECT_NE(differences("none", "512x512x512 bf16\n"), "");
  EXPECT_NE(differences("word", "512x512x512 bf16 colour=red\n    x\n").find("not understood"),
            std::string::npos);
  EXPECT_NE(differences("range", "512x512x512 bf16 tile_m=4294967424\n    x\n").find("not understood"),
            std::string::npos)
      << "2^32 + 128 is not 128";
  EXPECT_EQ(regenerate(parse_file(good)), good);
}

TEST(plans, a_line_says_the_whole_request) {
  const Result<Request> r = parse_request(
      "8x16x32 e4m3*e5m2>fp16 batch=3 lda=48 d_batch=999 scale_a=vector scale_b=tensor bias=fp32 act=silu "
      "residual=fp16 update=add order=any gated=yes scale_d=tensor accumulate=promoted schedule=cooperative "
      "tile_m=128 cluster=2x1 "
      "store=direct "
      "raster=along_n group=4 clusters=5 sm_count=20");
  ASSERT_TRUE(r.ok()) << r.error().message;
  const Problem expected{.m = 8,
                         .n = 16,
                         .k = 32,
                         .batch = 3,
                         .a = {.type = DType::e4m3, .ld = 48},
                         .b = {.type = DType::e5m2},
                         .d = {.type = DType::fp16, .batch_stride = 999},
                         .epilogue = {.scale_a = ScaleMode::vector,
                                      .scale_b = ScaleMode::tensor,
                                      .bias = Bias::column,
                                      .bias_type = DType::fp32,
                                      .activation = Activation::silu,
                                      .residual = true,
                                      .c_type = DType::fp16,
                                      .update = Update::add,
                                      .gated = true,
                                      .scale_d = ScaleMode::tensor},
                         .accumulate = Accumulate::promoted,
                         .deterministic = false};
  EXPECT_EQ(r->problem, expected);
  EXPECT_EQ(r->overrides.schedule, Schedule::cooperative);
  EXPECT_EQ(r->overrides.tile_m, 128);
  EXPECT_EQ(r->overrides.cluster, (ClusterShape{2, 1}));
  EXPECT_EQ(r->overrides.store, StorePath::direct);
  EXPECT_EQ(r->overrides.raster, Raster::along_n);
  EXPECT_EQ(r->overrides.raster_group, 4);
  EXPECT_EQ(r->overrides.clusters, 5);
  EXPECT_EQ(r->device.sm_count, 20);
}

}  // namespace
}  // namespace sluice::plans
