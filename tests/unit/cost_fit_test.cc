// SPDX-License-Identifier: Apache-2.0
// Fitting must improve the model's choices on its data and keep constants plausible. A file that `sluice
// tune` did not write is refused, with the reason. To see it fail: accept every step in fit(), or leave out
// the clamp.
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>

#include <sluice/plan/dense/candidates.h>
#include <sluice/plan/dense/problem_checks.h>

#include "lab/fit/cost_fit.h"

namespace sluice::fitting {
namespace {

/// Invented measurements of a machine whose clusters and waves start late, which otherwise behaves as the
/// model predicts.
std::vector<FitShape> made_up_shapes() {
  Costs truth = kCosts;
  truth.cluster_us *= 3;
  truth.wave_us *= 2;
  std::vector<FitShape> shapes;
  for (const i64 m : {128, 1024, 4096})
    for (const i64 n : {1280, 4096})
      for (const i64 k : {512, 4096}) {
        FitShape shape{.name = std::to_string(m), .problem = *check_problem({.m = m, .n = n, .k = k})};
        const auto plans = rank_candidates(shape.problem, DeviceInfo{}, {});
        for (const Plan& plan : *plans)
          if (!is_plain(plan.config.schedule))
            shape.timings.push_back(
                {plan.config, plan.split,
                 estimate(shape.problem, plan.config, plan.split, DeviceInfo{}, truth).total_us});
        shapes.push_back(shape);
      }
  return shapes;
}

TEST(cost_fit, chooses_better_and_stays_within_bounds) {
  const std::vector<FitShape> shapes = made_up_shapes();
  const FitQuality before = judge(shapes, DeviceInfo{}, kCosts);
  ASSERT_GT(before.loss, 1.0015);
  int passes = 0;
  const Costs fitted = fit(shapes, DeviceInfo{}, {.constants = kCosts}, 3,
                           [&](int pass, const FitQuality&) { passes = pass; });
  EXPECT_EQ(passes, 3);
  const FitQuality after = judge(shapes, DeviceInfo{}, fitted);
  EXPECT_LT(after.loss, 1 + 0.7 * (before.loss - 1)) << before.loss;
  EXPECT_LT(after.spread, before.spread);
  for (const FitParameter& parameter : fit_parameters()) {
    EXPECT_GE(fitted.*parameter.member, parameter.least) << parameter.name;
    EXPECT_LE(fitted.*parameter.member, parameter.most) << parameter.name;
  }
}

TEST(cost_fit, picks_are_timings_of_the_shape) {
  const std::vector<FitShape> shapes = made_up_shapes();
  const FitPick found = pick_of(shapes[0], DeviceInfo{}, kCosts);
  EXPECT_LE(found.best->us, found.pick->us);
  EXPECT_LE(found.estimate_us, found.best_estimate_us);
}

std::string file_with(const std::string& config, const std::string& split) {
  const std::string path = testing::TempDir() + "cost_fit_test_" + std::to_string(getpid()) + ".json";
  std::ofstream(path)
      << R"({"shapes": [{"name": "s", "problem": {"m": 64, "n": 64, "k": 64, "batch": 1, "a": "bf16",
    "b": "bf16", "d": "bf16", "a_layout": "k", "b_layout": "k", "accumulate": "fast", "scale_a": "none",
    "scale_b": "none", "bias": false, "activation": "none", "residual": false}, "candidates": [
    {"verified": true, "us": 3.0, "config": ")"
      << config << R"(", "split": ")" << split << R"("}, {"verified": true, "us": 4.0, "config": ")" << config
      << R"(", "split": ")" << split << R"("}]}]})";
  return path;
}

/// Covers plain schedules, whose rings differ. When they were read as cooperative, they were refused or
/// misjudged.
TEST(cost_fit, reads_every_candidate_of_few_tokens) {
  const Problem p = *check_problem({.m = 64, .n = 64, .k = 64});
  const auto plans = rank_candidates(p, DeviceInfo{}, {});
  int plain = 0;
  for (const Plan& plan : *plans) {
    if (plan.split.slices > 1) continue;
    const auto read = read_fit_shapes(file_with(to_string(plan.config), to_string(plan.split)));
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(read->size(), 1u);
    const FitPick found = pick_of(read->front(), DeviceInfo{}, kCosts);
    EXPECT_EQ(found.pick->config, plan.config) << short_name(found.pick->config);
    EXPECT_DOUBLE_EQ(found.estimate_us, plan.estimate.total_us) << short_name(plan.config);
    plain += is_plain(plan.config.schedule) ? 1 : 0;
  }
  EXPECT_GT(plain, 20);
}

TEST(cost_fit, refuses_what_is_no_timing) {
  const std::string config = to_string(KernelConfig{.stages = 4}), split = to_string(WorkSplit{});
  EXPECT_TRUE(read_fit_shapes(file_with(config, split)));
  for (const auto& [bad_config, bad_split, what] :
       {std::tuple{std::string("foreign"), split, "tile and cluster must be there"},
        {config, std::string("foreign"), "clusters and group must be at least 1"},
        {config.substr(0, config.find(".cluster")), split, "tile and cluster must be there"},
        {"sluice::KernelConfig{.schedule = sluice::Schedule::plain_wgmma, .tile = {.m = 64, .n = 8, .k = "
         "128}, "
         ".cluster = {.m = 1, .n = 1, .k = 1}, .warps = 8, .stages = 3}",
         split, "tile and cluster must be there"},
        {config, split.substr(0, split.find("= ")) + "= 99999999999}", "clusters and group"}}) {
    const auto read = read_fit_shapes(file_with(bad_config, bad_split));
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().message.find(what), std::string::npos) << read.error().message;
  }
  EXPECT_EQ(read_fit_shapes("/nowhere.json").error().code, ErrorCode::io);
}

TEST(cost_fit, says_what_a_file_is_that_it_cannot_read) {
  const std::string path = testing::TempDir() + "cost_fit_file_" + std::to_string(getpid()) + ".json";
  const auto says = [&](const std::string& text) {
    std::ofstream(path) << text;
    const auto read = read_fit_shapes(path);
    return read ? std::string() : read.error().message;
  };
  EXPECT_NE(says(R"({"shapes":[{)").find("is not JSON from byte 13 on: give a whole file"),
            std::string::npos);
  EXPECT_NE(says("{}").find("is not what `sluice tune --json` writes (key 'shapes' not found)"),
            std::string::npos);
  EXPECT_NE(read_fit_shapes(testing::TempDir()).error().message.find("Is a directory"), std::string::npos);
}

}  // namespace
}  // namespace sluice::fitting
