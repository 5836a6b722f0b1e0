// SPDX-License-Identifier: Apache-2.0
// Compares the cost model with the committed results: estimates of kernels that were timed, and the loss of
// its pick if all candidates were timed. To see it fail: make loaded_latency three times as large in
// constants.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/shapes.h"
#include "lab/fit/cost_fit.h"

#include <sluice/plan.h>
#include <sluice/records.h>

namespace sluice::fitting {
namespace {

const DeviceInfo kH200{};

/// A record's file, or its text without compression, which the build makes (tests/CMakeLists.txt).
std::string path_of(const std::string& gpu, const std::string& file) {
  const std::string plain = SLUICE_SOURCE_DIR "/bench/results/" + gpu + "/" + file;
  return std::filesystem::exists(plain) ? plain : SLUICE_BINARY_DIR "/results/" + gpu + "_" + file;
}

struct Timed {
  std::string name;
  double ratio;  // estimate divided by measured time
};

/// Returns the ratio of estimate to measured time for the plain products of a results file. Shapes whose
/// kernel a newer record has replaced are left out.
std::vector<Timed> timed_in(const std::string& file) {
  std::vector<Timed> timed;
  const auto run = nlohmann::json::parse(std::ifstream(path_of("h200", file)));
  for (const auto& shape : run.at("shapes")) {
    const auto& p = shape.at("problem");
    const Problem problem = bench::plain_problem(p.at("m"), p.at("n"), p.at("k"),
                                                 p.at("a") == "bf16" ? DType::bf16 : DType::e4m3);
    const Result<Plan> plan = gemm::plan(problem, kH200);
    if (!plan || shape.at("name") != bench::problem_text(problem)) continue;
    for (const auto& contender : shape.at("contenders"))
      if (contender.at("name") == "sluice" && contender.at("detail") == short_name(plan->config))
        timed.push_back(
            {shape.at("name"), plan->estimate.total_us / contender.at("us").at("median").get<double>()});
  }
  return timed;
}

/// One constant fits all products, except those of 1280 columns with 128 to 512 rows, which it overestimates
/// by a fifth to a third. So the upper limit for a single product is wide, and the limits for a file's mean
/// are narrow.
TEST(cost_results, estimates_lie_near_the_times_of_the_kernels_that_ran) {
  for (const char* file : {"engine.json", "tokens.json", "decode.json", "odd_rows.json"}) {
    const std::vector<Timed> timed = timed_in(file);
    EXPECT_GE(timed.size(), 40u) << file << ": records have replaced what was timed; run the bench again";
    double sum = 0;
    for (const Timed& each : timed) {
      EXPECT_GT(each.ratio, 0.9) << file << ": " << each.name;
      EXPECT_LT(each.ratio, 1.35) << file << ": " << each.name;
      sum += std::log(each.ratio);
    }
    const double mean = std::exp(sum / static_cast<double>(timed.size()));
    EXPECT_GT(mean, 0.97) << file;
    EXPECT_LT(mean, 1.10) << file;
  }
}

/// Lists of shapes that no record or fit has used, with 20 or 40 timed candidates per shape. unseen.json is
/// the regression set. blind_4129dd5.json was drawn after the model was done; four of its 15 shapes with
/// MN-major operands lose 18 to 32 %. blind.json is the newest list, for both cards
/// (docs/findings/unseen.md). Its limits are a tenth above the model's loss, so that a change of the planner
/// cannot make unseen shapes worse.
struct TimedList {
  const char *gpu, *file;
  size_t shapes;
  FitQuality most;
};
constexpr TimedList kLists[] = {
    {"h200", "unseen.json", 40, {.loss = 1.015, .worst_loss = 1.15, .spread = 0.05, .error = 0.10}},
    {"h200", "blind_4129dd5.json", 60, {.loss = 1.04, .worst_loss = 1.40, .spread = 0.06, .error = 0.12}},
    {"h200", "blind.json", 80, {.loss = 1.0255, .worst_loss = 1.35, .spread = 0.050, .error = 0.062}},
    {"h100", "blind.json", 80, {.loss = 1.027, .worst_loss = 1.245, .spread = 0.056, .error = 0.066}},
};

TEST(cost_results, every_blind_list_has_a_bar) {
  int lists = 0;
  for (const char* gpu : {"h200", "h100"})
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(SLUICE_SOURCE_DIR "/bench/results/") + gpu)) {
      std::string name = entry.path().filename();
      if (name.ends_with(".xz")) name.resize(name.size() - 3);
      if (!name.starts_with("blind") || name.find(".json") == std::string::npos) continue;
      ++lists;
      EXPECT_TRUE(std::any_of(
          std::begin(kLists), std::end(kLists),
          [&](const TimedList& list) { return name == list.file && list.gpu == std::string(gpu); }))
          << gpu << "/" << name << " has no bar";
    }
  EXPECT_GE(lists, 3);
}

/// Compares the pick's time with the fastest timed candidate of each shape.
TEST(cost_results, its_pick_loses_little_against_the_best_of_shapes_without_records) {
  for (const TimedList& list : kLists) {
    const auto& [gpu, file, count, most] = list;
    const auto shapes = read_fit_shapes(path_of(gpu, file));
    ASSERT_TRUE(shapes) << shapes.error().message;
    ASSERT_GE(shapes->size(), count);
    const Result<DeviceInfo> device = gpu_named(gpu);
    ASSERT_TRUE(device) << device.error().message;
    const FitQuality quality = judge(*shapes, *device, kCosts);
    EXPECT_LT(quality.loss, most.loss) << file;
    EXPECT_LT(quality.worst_loss, most.worst_loss) << quality.worst_shape;
    EXPECT_LT(quality.spread, most.spread) << file << ": estimates of one shape's candidates to their times";
    EXPECT_LT(quality.error, most.error) << file << ": estimates of shapes";

    // Wrong models must violate the limits above.
    Costs slow = kCosts, far = kCosts;
    slow.loaded_latency *= 3;
    far.cluster_us *= 8;
    EXPECT_GT(judge(*shapes, *device, slow).loss, most.loss) << file;
    EXPECT_GT(judge(*shapes, *device, slow).error, 2 * most.error) << file;
    EXPECT_GT(judge(*shapes, *device, far).loss, quality.loss) << file;
    EXPECT_GT(judge(*shapes, *device, far).spread, most.spread) << file;
  }
}

}  // namespace
}  // namespace sluice::fitting
