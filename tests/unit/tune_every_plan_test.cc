// SPDX-License-Identifier: Apache-2.0
// `sluice tune --all` lists the model's candidates first, then more numbers of slices and ways to combine
// them, each plan once. The record states how many there are. To see it fail: leave out the unsplit plan of a
// tile, or list a plan twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include <sluice/conv.h>

#include <sluice/bench/record.h>
#include "bench/shapes.h"
#include "bench/tune/every_plan.h"
#include "bench/tune/report.h"

namespace sluice::bench {
namespace {

Problem wgrad() {
  const Conv conv{.op = ConvOp::wgrad,
                  .images = 32,
                  .channels = 128,
                  .filters = 128,
                  .size = {28, 28, 1},
                  .filter = {3, 3, 1},
                  .padding = {1, 1, 0},
                  .padding_after = {1, 1, 0}};
  return *conv::problem(conv, DType::bf16, DType::bf16);
}

TEST(every_plan, begins_with_the_models_and_holds_each_once) {
  for (const Problem& problem : {wgrad(), with_strides(plain_problem(256, 256, 16384, DType::bf16))}) {
    const std::vector<Plan> ranked = *gemm::candidates(problem, DeviceInfo{});
    const std::vector<Plan> all = *every_plan({.problem = problem}, DeviceInfo{});
    ASSERT_GT(all.size(), ranked.size());
    for (size_t i = 0; i < ranked.size(); ++i) EXPECT_TRUE(is_same(all[i], ranked[i]));
    std::set<std::string> names, combines;
    for (const Plan& plan : all) {
      EXPECT_TRUE(names.insert(config_text(plan) + split_text(plan)).second) << config_text(plan);
      combines.insert(name_of(plan.config.combine));
    }
    EXPECT_TRUE(combines.count("none") && combines.count("last_arriver") && combines.count("separate"));
    EXPECT_FALSE(combines.count("add")) << "bits must not depend on the order";
  }
}

TEST(every_plan, splits_every_tile_that_can_be_split) {
  const std::vector<Plan> all = *every_plan({.problem = wgrad()}, DeviceInfo{});
  std::set<std::pair<int, int>> tiles;
  for (const Plan& plan : all) {
    const KernelConfig& c = plan.config;
    if (!is_plain(c.schedule)) tiles.insert({c.tile.m, c.tile.n});
  }
  for (const auto& [m, n] : tiles) {
    int whole = 0, split = 0;
    for (const Plan& any : all) {
      const Plan& plan = any;
      if (plan.config.tile.m != m || plan.config.tile.n != n || is_plain(plan.config.schedule)) continue;
      (plan.split.slices > 1 ? split : whole) += 1;
    }
    EXPECT_GT(whole, 0) << m << "x" << n;
    EXPECT_GT(split, 4) << m << "x" << n;
  }
}

/// The planner does not consider clusters along k for forward layers. The sweep includes them, so that it can
/// show whether that is right.
TEST(every_plan, has_clusters_that_the_planner_leaves_out) {
  Problem forward = wgrad();
  forward.conv.op = ConvOp::fprop;
  forward = *conv::problem(forward.conv, DType::bf16, DType::bf16);
  const auto is_along_k = [](const Plan& plan) { return plan.config.cluster.k > 1; };
  const std::vector<Plan> all = *every_plan({.problem = forward}, DeviceInfo{});
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), is_along_k));
}

TEST(every_plan, keeps_the_callers_cluster) {
  const ClusterShape asked{2, 1};
  const std::vector<Plan> all =
      *every_plan({.problem = wgrad(), .overrides = {.cluster = asked}}, DeviceInfo{});
  for (const Plan& plan : all) EXPECT_EQ(plan.config.cluster, asked) << config_text(plan);
}

TEST(every_plan, the_record_counts_them_and_names_each_choice) {
  const Problem problem = wgrad();
  TuneResult result{.problem = problem, .state = TuneState::tuned, .best = 0, .ranked = 40, .possible = 900};
  result.trials.push_back({.plan = every_plan({.problem = problem}, DeviceInfo{})->back(),
                           .state = TrialState::right,
                           .screened = {12.0, 11.0, 13.0},
                           .timed = {12.5}});
  RunRecord run;
  run.shapes = {shape_record_of(result)};
  const auto shape = nlohmann::json::parse(to_json(run))["shapes"][0];
  EXPECT_EQ(shape["ranked_candidates"], 40);
  EXPECT_EQ(shape["possible_plans"], 900);
  EXPECT_EQ(shape["convolution"]["op"], "wgrad");
  EXPECT_EQ(shape["convolution"]["padding"], nlohmann::json::parse("[1, 1]"));
  const Plan& plan = result.trials[0].plan;
  const auto choice = shape["candidates"][0]["choice"];
  EXPECT_EQ(shape["candidates"][0]["us"], 12.0);
  EXPECT_EQ(choice["combine"], name_of(plan.config.combine));
  EXPECT_EQ(choice["tile"][1], plan.config.tile.n);
  EXPECT_EQ(choice["splits"], plan.split.slices);
}

}  // namespace
}  // namespace sluice::bench
