// SPDX-License-Identifier: Apache-2.0
// The parts of bench/ that need no GPU: statistics, sets of shapes, the number of operand sets of a cold run,
// the record and its JSON, the tables. Expected numbers are computed by hand.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <sluice/spec/conv_problem.h>

#include <sluice/bench/record.h>
#include "bench/contender/sluice_contender.h"
#include "bench/shapes.h"
#include "cli/bench_table.h"
#include "cli/command_line.h"
#include "cli/table.h"

namespace sluice::bench {
namespace {

ContenderRecord timed(const char* name, double us) {
  return {.name = name,
          .detail = "kernel",
          .us = {.median = us, .p10 = us, .p90 = us},
          .rounds = {us, us},
          .launches = 7,
          .verified = true,
          .verdict = "fine"};
}

ShapeRecord shape_record(double ours, double first, double best) {
  return {.problem = plain_problem(1024, 4096, 4096, DType::e4m3),
          .copies = 12,
          .contenders = {timed(kSluice, ours), timed(kPeerFirst, first), timed(kPeerBest, best)},
          .telemetry = summarise({{.sm_mhz = 1980, .power_w = 600, .celsius = 50},
                                  {.sm_mhz = 1755, .power_w = 700, .celsius = 52}})};
}

RunRecord run_record() {
  RunRecord run{.command = "sluice bench", .gpu = "NVIDIA H200", .fp8_peak_tflops = 1685};
  run.shapes = {shape_record(20, 30, 25), shape_record(40, 30, 25)};
  return run;
}

TEST(bench_statistics, quantiles_interpolate) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.1), 1);
  EXPECT_DOUBLE_EQ(quantile({5}, 0.9), 5);
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
}

TEST(bench_statistics, one_outlier_does_not_move_the_median) {
  EXPECT_DOUBLE_EQ(quantiles_of({10, 10, 10, 10, 1000}).median, 10);
}

TEST(bench_statistics, geometric_mean_ignores_what_was_not_measured) {
  EXPECT_DOUBLE_EQ(geometric_mean({1, 4}), 2);
  EXPECT_DOUBLE_EQ(geometric_mean({2, 0, 8}), 4);
  EXPECT_DOUBLE_EQ(geometric_mean({}), 0);
}

TEST(bench_shapes, engine_is_the_set_of_the_performance_page) {
  const auto set = problem_set("engine");
  ASSERT_TRUE(set);
  EXPECT_EQ(set->size(), 48u);  // 2 types x 3 prompts x 8 layers
  bool cube = false;
  for (const Problem& any : *set) {
    const Problem& p = any;
    cube = cube || (p.m == 8192 && p.n == 8192 && p.k == 8192);
    EXPECT_EQ(p.d.type, DType::bf16);
    EXPECT_EQ(p.accumulate, Accumulate::fast);
  }
  EXPECT_TRUE(cube);
}

TEST(bench_shapes, an_unknown_set_lists_the_known_ones) {
  const auto set = problem_set("engin");
  ASSERT_FALSE(set);
  for (const std::string& name : set_names())
    EXPECT_NE(set.error().message.find(name), std::string::npos) << name;
}

TEST(bench_shapes, names_say_what_is_not_plain) {
  Problem p = plain_problem(64, 32, 16, DType::bf16);
  EXPECT_EQ(problem_text(p), "64x32x16 bf16 > bf16");
  p.a.major = Major::mn;
  p.epilogue.activation = Activation::gelu;
  EXPECT_EQ(problem_text(p), "64x32x16 bf16 > bf16 mn/k-major gelu");
  p.epilogue = {.update = Update::add};
  EXPECT_EQ(problem_text(p), "64x32x16 bf16 > bf16 mn/k-major added");
  p.deterministic = false;
  EXPECT_EQ(problem_text(p), "64x32x16 bf16 > bf16 mn/k-major added in any order");
}

TEST(bench_shapes, traffic_counts_every_operand_once_and_a_d_that_is_added_to_twice) {
  Problem p = plain_problem(10, 20, 30, DType::e4m3);
  EXPECT_DOUBLE_EQ(flops_of(p), 2.0 * 10 * 20 * 30);
  EXPECT_DOUBLE_EQ(bytes_of_traffic(p), 10 * 30 + 20 * 30 + 10 * 20 * 2);
  p.d.type = DType::fp32;
  p.epilogue.update = Update::add;
  EXPECT_DOUBLE_EQ(bytes_of_traffic(p), 10 * 30 + 20 * 30 + 10 * 20 * 4 * 2);
}

TEST(bench_copies, cold_runs_rotate_over_three_caches_of_weights) {
  const Problem p = plain_problem(1024, 1280, 8192, DType::e4m3);  // 10 MiB of weights
  const i64 l2 = i64{60} << 20;
  EXPECT_EQ(copies_for(p, l2, i64{20} << 20, true), 18);
  EXPECT_EQ(copies_for(p, l2, i64{20} << 20, false), 1);
  EXPECT_EQ(copies_for(p, l2, i64{1} << 30, true), 8);    // the memory limit decides
  EXPECT_EQ(copies_for(p, l2, i64{100} << 30, true), 1);  // at least one set
  EXPECT_EQ(copies_for(plain_problem(8192, 28672, 4096, DType::bf16), l2, i64{1} << 30, true), 2);
}

TEST(bench_copies, weights_of_less_than_a_megabyte_are_cold_too) {
  const Problem p = plain_problem(80, 544, 704, DType::fp16);  // 748 KiB of weights
  const i64 l2 = i64{60} << 20, weights = p.n * p.k * 2;
  EXPECT_GE(copies_for(p, l2, i64{1} << 20, true) * weights, 3 * l2);
}

TEST(bench_record, ratios_are_peer_over_ours) {
  const RunRecord run = run_record();
  EXPECT_DOUBLE_EQ(ratio(run.shapes[0], kSluice, kPeerBest), 1.25);
  const RatioSummary s = summarise_ratio(run, kSluice, kPeerBest);
  EXPECT_EQ(s.count, 2);
  EXPECT_NEAR(s.geometric_mean, 0.88388, 1e-5);  // sqrt(1.25 * 0.625)
  EXPECT_DOUBLE_EQ(s.least, 0.625);
}

TEST(bench_record, the_peers_best_is_the_fastest_of_its_in_the_race) {
  ShapeRecord shape = shape_record(20, 22, 25);
  EXPECT_DOUBLE_EQ(ratio(shape, kSluice, kPeerBest), 1.1);
  shape.contenders[1].verified = false;
  EXPECT_DOUBLE_EQ(ratio(shape, kSluice, kPeerBest), 1.25);
}

TEST(bench_record, a_failed_contender_has_no_ratio) {
  ShapeRecord shape = shape_record(20, 30, 25);
  shape.contenders[2].error = "refused";
  EXPECT_EQ(ratio(shape, kSluice, kPeerBest), 0);
  EXPECT_TRUE(all_verified(shape));  // a failed peer does not make sluice wrong
  shape.contenders[0].verified = false;
  EXPECT_FALSE(all_verified(shape));
}

/// A wrong kernel of sluice must not count as fast, and a wrong peer must not count as slow.
TEST(bench_record, what_is_not_verified_has_no_ratio_and_no_part_in_the_summary) {
  for (const size_t contender : {size_t{0}, size_t{2}}) {
    RunRecord run = run_record();
    run.shapes[0].contenders[contender].verified = false;
    EXPECT_EQ(ratio(run.shapes[0], kSluice, kPeerBest), 0);
    const RatioSummary s = summarise_ratio(run, kSluice, kPeerBest);
    EXPECT_EQ(s.count, 1);
    EXPECT_DOUBLE_EQ(s.geometric_mean, 0.625);
  }
}

TEST(bench_record, json_has_what_the_report_reads) {
  const auto json = nlohmann::json::parse(to_json(run_record()));
  EXPECT_EQ(json["schema"], "sluice-bench-1");
  EXPECT_EQ(json["machine"]["gpu"], "NVIDIA H200");
  ASSERT_EQ(json["shapes"].size(), 2u);
  const auto& shape = json["shapes"][0];
  EXPECT_EQ(shape["problem"]["m"], 1024);
  EXPECT_EQ(shape["problem"]["a"], "e4m3");
  EXPECT_EQ(shape["ratios"]["cuBLASLt best / sluice"], 1.25);
  EXPECT_EQ(shape["telemetry"]["power_w"]["max"], 700);
  EXPECT_EQ(shape["telemetry"]["sm_mhz"]["min"], 1755);
  ASSERT_EQ(shape["contenders"].size(), 3u);
  EXPECT_EQ(shape["contenders"][0]["us"]["median"], 20);
  // 2 * 1024 * 4096 * 4096 operations in 20 us.
  EXPECT_NEAR(shape["contenders"][0]["rates"]["tflops"].get<double>(), 1717.987, 1e-3);
  EXPECT_EQ(json["summary"]["cuBLASLt best / sluice"]["least"], 0.625);
}

TEST(bench_record, json_survives_bytes_that_are_not_utf8) {
  RunRecord run = run_record();
  run.shapes[0].error = "bad \xff byte";
  EXPECT_FALSE(nlohmann::json::parse(to_json(run), nullptr, false).is_discarded());
}

TEST(bench_record, writing_replaces_the_file_whole_or_says_why_not) {
  const std::string folder = testing::TempDir() + "sluice_record_" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/run.json";
  ASSERT_TRUE(write_json(run_record(), path));
  ASSERT_TRUE(write_json(run_record(), path));
  std::ifstream file(path);
  EXPECT_EQ(nlohmann::json::parse(file)["shapes"].size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  std::filesystem::remove_all(folder);
  EXPECT_EQ(write_json(run_record(), path).error().code, ErrorCode::io);
}

TEST(bench_table, a_line_shows_times_ratios_and_verdict) {
  const RunRecord run = run_record();
  const std::string line = cli::shape_line(run, run.shapes[0], false);
  for (const char* part :
       {"1024x4096x4096 e4m3 > bf16", "20.00", "30.00", "25.00", "1.500", "1.250", "102%", "yes"})
    EXPECT_NE(line.find(part), std::string::npos) << part << " in\n" << line;
}

/// Record of ResNet-50's first 3x3 layer as a weight gradient, with cuDNN's times.
ShapeRecord conv_record(double ours, double first, double best, double same) {
  const Conv conv{.op = ConvOp::wgrad,
                  .images = 32,
                  .channels = 64,
                  .filters = 64,
                  .size = {56, 56, 1},
                  .filter = {3, 3, 1},
                  .padding = {1, 1, 0},
                  .padding_after = {1, 1, 0}};
  return {.problem = product_of_conv(conv, DType::bf16, DType::bf16),
          .peer_algorithms = 40,
          .contenders = {timed(kSluice, ours), timed(kCudnnFirst, first), timed(kCudnnBest, best),
                         timed(kCudnnDeterministic, same)}};
}

TEST(bench_record, the_best_of_cudnn_is_the_fastest_of_its_in_the_race) {
  ShapeRecord shape = conv_record(20, 30, 25, 28);
  EXPECT_DOUBLE_EQ(ratio(shape, kSluice, kCudnnBest), 1.25);
  EXPECT_DOUBLE_EQ(ratio(shape, kSluice, kCudnnDeterministic), 1.4);
  shape.contenders[2].us.median = 40;  // slower in the race than in its screening
  EXPECT_DOUBLE_EQ(ratio(shape, kSluice, kCudnnBest), 1.4);
  shape.contenders[3].verified = false;
  EXPECT_DOUBLE_EQ(ratio(shape, kSluice, kCudnnBest), 1.5);
  EXPECT_EQ(ratio(shape, kSluice, kCudnnDeterministic), 0);
  EXPECT_TRUE(all_verified(shape)) << "a peer's fault is not sluice's";
  EXPECT_EQ(ratio(shape, kSluice, kPeerBest), 0);
}

TEST(bench_record, a_convolution_is_written_in_its_own_terms) {
  RunRecord run = run_record();
  run.shapes = {conv_record(20, 30, 25, 28)};
  const auto json = nlohmann::json::parse(to_json(run));
  const auto& shape = json["shapes"][0];
  EXPECT_EQ(shape["name"], "wgrad 32x64x56x56 * 64x3x3 padding 1 bf16 > bf16");
  EXPECT_EQ(shape["problem"]["n"], 576);
  EXPECT_EQ(shape["convolution"]["filters"], 64);
  EXPECT_EQ(shape["convolution"]["filter"], nlohmann::json::parse("[3, 3]"));
  EXPECT_EQ(shape["flops"], 2.0 * 32 * 56 * 56 * 64 * 64 * 9);
  EXPECT_EQ(shape["bytes"], 2.0 * (2 * 32 * 56 * 56 * 64 + 64 * 9 * 64));
  EXPECT_EQ(shape["ratios"]["cuDNN best / sluice"], 1.25);
  EXPECT_EQ(json["summary"]["cuDNN same bits / sluice"]["least"], 1.4);
  EXPECT_FALSE(nlohmann::json::parse(to_json(run_record()))["shapes"][0].contains("convolution"));
}

TEST(bench_table, a_line_of_a_convolution_has_its_peer) {
  RunRecord run = run_record();
  run.shapes = {conv_record(20, 30, 25, 28)};
  const std::string line = cli::shape_line(run, run.shapes[0], false);
  for (const char* part :
       {"wgrad 32x64x56x56 * 64x3x3 padding 1", "20.00", "30.00", "25.00", "1.500", "1.250", "1.400", "yes"})
    EXPECT_NE(line.find(part), std::string::npos) << part << " in\n" << line;
  EXPECT_NE(cli::shape_header(cli::columns_of(run.shapes[0].problem, false)).find("convolution"),
            std::string::npos);
}

/// A convolution's filter is small, so the number of copies follows from the images.
TEST(bench_copies, of_a_convolution_count_both_inputs) {
  const ShapeRecord shape = conv_record(20, 30, 25, 28);
  const Problem& p = shape.problem;
  constexpr i64 kL2 = i64{60} << 20, kSet = i64{30} << 20;
  // Three times 60 MB of L2, in sets whose inputs have 25.7 MB.
  EXPECT_EQ(copies_for(p, kL2, kSet, true), 8);
  EXPECT_EQ(copies_for(p, kL2, kSet, false), 1);
}

TEST(bench_table, troubles_name_contender_and_reason) {
  ShapeRecord shape = shape_record(20, 30, 25);
  EXPECT_EQ(cli::shape_troubles(shape), "");
  shape.contenders[0].verified = false;
  shape.contenders[0].verdict = "3 wrong";
  shape.contenders[1].error = "no algorithm";
  const std::string text = cli::shape_troubles(shape);
  EXPECT_NE(text.find("sluice (kernel) is wrong: 3 wrong"), std::string::npos) << text;
  EXPECT_NE(text.find("cuBLASLt first (kernel): no algorithm"), std::string::npos) << text;
  shape.contenders[2].verified = false;
  shape.peer_caveat = "tanh GELU";
  EXPECT_NE(cli::shape_troubles(shape).find("cuBLASLt best (kernel) is not compared: tanh GELU"),
            std::string::npos);
}

TEST(text_table, columns_align_and_lines_end_without_blanks) {
  const cli::Table table(
      {{.title = "name", .width = 6, .align = cli::Align::left}, {.title = "us", .width = 5}});
  EXPECT_EQ(table.header(), "name       us\n------  -----\n");
  EXPECT_EQ(table.row({"a", "1.5"}), "a         1.5\n");
  EXPECT_EQ(table.row({"longer than wide", "1"}), "longer than wide      1\n");
  EXPECT_EQ(table.row({"a"}), "a\n");
}

TEST(command_line, words_are_quoted_so_that_they_can_be_pasted) {
  const char* words[] = {"/somewhere/sluice", "bench", "--only", "1024x4096 e4m3", "it's"};
  cli::remember_command_line(5, words);
  EXPECT_EQ(cli::command_line(), "sluice bench --only '1024x4096 e4m3' 'it'\\''s'");
}

}  // namespace
}  // namespace sluice::bench
