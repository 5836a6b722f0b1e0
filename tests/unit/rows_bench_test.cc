// SPDX-License-Identifier: Apache-2.0
// `sluice_lab rows` without a GPU: the random draw, flags, and results. A wrong kernel has no time, and a
// kernel made in a call that should make none is reported. To see it fail: leave kernels_made out of
// all_right().
#include "lab/rows/record.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/row_range.h"
#include "lab_fixture.h"
#include "tests/packed_problems.h"

namespace sluice::lab {
namespace {

TEST(rows_bench, numbers_are_drawn_from_equal_parts_and_again_the_same) {
  const RowsMethod method{.rows = {1, 512}, .numbers = 24, .seed = 3};
  const std::vector<i64> drawn = drawn_rows(method);
  ASSERT_EQ(drawn.size(), 24u);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_GT(drawn[i], 512 * static_cast<i64>(i) / 24);
    EXPECT_LE(drawn[i], 512 * static_cast<i64>(i + 1) / 24);
  }
  EXPECT_EQ(drawn, drawn_rows(method));
  EXPECT_NE(drawn, drawn_rows({.rows = {1, 512}, .numbers = 24, .seed = 4}));
  EXPECT_EQ(drawn_rows({.rows = {7, 9}, .numbers = 24}), (std::vector<i64>{7, 8, 9}));
}

RowPoint point(i64 m, double alone, double few) {
  RowPoint p{.m = m, .alone = "a", .few = "b"};
  p.alone_us.median = alone, p.few_us.median = few, p.verified = true;
  return p;
}

RowsRecord layer_of(std::vector<RowPoint> points) {
  RowsRecord layer{.name = "layer", .points = std::move(points)};
  layer.summary.kernels = 12;
  layer.first_calls = {.calls = 512, .worst_us = 130};
  return layer;
}

TEST(rows_bench, the_mean_is_of_drawn_points_and_the_worst_of_all) {
  RowsRecord layer = layer_of({point(5, 10, 10.2), point(6, 10, 9.9), point(7, 10, 11)});
  layer.points[2].drawn = false;
  EXPECT_NEAR(layer.mean_loss(), 0.005, 1e-9);
  EXPECT_NEAR(layer.worst_loss(), 0.1, 1e-9);
  layer.points.push_back({.m = 8, .same = true});
  EXPECT_NEAR(layer.mean_loss(), 0.01 / 3, 1e-9);
  EXPECT_TRUE(layer.all_right());
  layer.points.push_back({.m = 9, .error = "wrong"});
  EXPECT_FALSE(layer.all_right());
  EXPECT_NEAR(layer.mean_loss(), 0.01 / 3, 1e-9);
  layer.points.pop_back();
  layer.first_calls.kernels_made = 1;
  EXPECT_FALSE(layer.all_right());
}

TEST(rows_bench, the_file_has_the_summary_and_every_point) {
  const std::vector<RowsRecord> layers{layer_of({point(5, 10, 10.2)}), layer_of({point(9, 20, 20)})};
  const nlohmann::json json = nlohmann::json::parse(to_json(RunRecord{.gpu = "NVIDIA H200"}, {}, layers));
  EXPECT_EQ(json["schema"], "sluice-rows-1");
  EXPECT_EQ(json["machine"]["gpu"], "NVIDIA H200");
  EXPECT_FALSE(json.contains("shapes"));
  EXPECT_EQ(json["summary"]["layers"], 2);
  EXPECT_NEAR(json["summary"]["mean_loss"].get<double>(), 0.01, 1e-9);
  EXPECT_NEAR(json["summary"]["worst_loss"].get<double>(), 0.02, 1e-9);
  EXPECT_EQ(json["layers"][0]["points"][0]["m"], 5);
  EXPECT_EQ(json["layers"][0]["first_calls"]["worst_us"], 130);
}

class RowsBench : public LabFixture {
 protected:
  RowsBench() : LabFixture({.rounds = 1, .peer = false}) {}
};

/// The fake GPU computes nothing, so every kernel that is checked is wrong.
TEST_F(RowsBench, first_calls_make_no_kernel_and_a_wrong_one_has_no_time) {
  const Problem dense{.n = 512, .k = 256};
  const RowsRecord record = measure_rows(*lab_, dense, {.rows = {1, 40}, .numbers = 6}, kSilent);
  EXPECT_EQ(record.error, "");
  EXPECT_EQ(record.first_calls.error, "");
  EXPECT_EQ(record.first_calls.calls, 40);
  EXPECT_EQ(record.first_calls.kernels_made, 0);
  EXPECT_GE(record.points.size(), 6u);
  for (const RowPoint& point : record.points)
    EXPECT_TRUE(point.same || !point.error.empty()) << point.m << " was timed and is not right";
  const PackedProblem packed{.n = 128, .k = 256, .weights = {.type = WeightType::uint4, .group = 128}};
  const RowsRecord few_bits = measure_rows(*lab_, packed, {.rows = {1, 40}, .numbers = 6}, kSilent);
  EXPECT_EQ(few_bits.error, "");
  EXPECT_EQ(few_bits.first_calls.error, "");
  EXPECT_EQ(few_bits.first_calls.kernels_made, 0);
}

TEST(rows_bench, a_range_is_two_numbers) {
  EXPECT_EQ(*cli::parse_rows("1:512"), (RowRange{1, 512}));
  EXPECT_EQ(*cli::parse_rows("7:7"), (RowRange{7, 7}));
  for (const char* text : {"", "1", "1:", ":5", "0:4", "5:4", "-1:4", "1:4x", "1:4:5", "1 :4",
                           "1:99999999999999999999", "a:b"}) {
    const Result<RowRange> rows = cli::parse_rows(text);
    ASSERT_FALSE(rows.ok()) << text;
    EXPECT_NE(rows.error().message.find("like 1:512"), std::string::npos) << rows.error().message;
  }
}

TEST(rows_bench, overrides_have_no_effect_on_a_range) {
  cli::RequestFlags flags;
  CLI::App app;
  cli::add_many_requests_flags(app, flags);
  app.parse("--shape 1x64x64 --stages 3");
  const Result<void> refused = cli::check_row_requests(flags, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("--stages has no effect with --rows"), std::string::npos);
  const Request line{.problem = {.m = 1, .n = 64, .k = 64}, .overrides = {.tile_m = 64}};
  const Result<void> in_file = cli::check_row_requests({}, {line});
  ASSERT_FALSE(in_file.ok());
  EXPECT_NE(in_file.error().message.find("override"), std::string::npos) << in_file.error().message;
}

}  // namespace
}  // namespace sluice::lab
