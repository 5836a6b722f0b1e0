// SPDX-License-Identifier: Apache-2.0
// The page generator (tools/report.py) on a record written by record.cc: both must agree on every name. Fails
// if a key is renamed on one side.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <sluice/bench/record.h>
#include "bench/shapes.h"
#include "bench/telemetry.h"

namespace sluice::bench {
namespace {

const std::string kReport = "python3 '" SLUICE_SOURCE_DIR "/tools/report.py' ";

TEST(report, reads_what_the_bench_writes) {
  const std::string folder = testing::TempDir() + "sluice_report_" + std::to_string(getpid());
  std::filesystem::create_directories(folder + "/results/h200");
  const auto timed = [](const char* name, double us) {
    return ContenderRecord{
        .name = name, .detail = "some kernel", .us = {us, us, us}, .rounds = {us}, .verified = true};
  };
  RunRecord run{.gpu = "NVIDIA H200", .fp8_peak_tflops = 1685, .hbm_gbps = 4500, .method = "cold"};
  run.shapes.push_back({.problem = plain_problem(1024, 4096, 4096, DType::e4m3),
                        .contenders = {timed(kSluice, 20), timed(kPeerFirst, 30), timed(kPeerBest, 25)},
                        .telemetry = summarise({{.sm_mhz = 1980, .power_w = 600, .celsius = 50}})});
  run.shapes.push_back({.problem = plain_problem(1, 2, 3, DType::e4m3), .error = "refused for a reason"});
  ASSERT_TRUE(write_json(run, folder + "/results/h200/engine.json"));

  const std::string command = kReport + "--results '" + folder + "/results' --docs '" + folder + "/docs'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  const auto text_of = [&](const char* name) {
    std::ifstream file(folder + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const std::string page = text_of("/docs/performance.md"), rows = text_of("/results/h200/products.csv");
  EXPECT_NE(page.find("| large products, M 1-1024 | cuBLASLt's best | 1.25 (1.25 to 1.25; 1 of 2) |"),
            std::string::npos)
      << page;
  EXPECT_NE(rows.find("engine,1024,4096,4096,1,e4m3,e4m3,bf16,fast,k/k,,model,some kernel,20.0,,25.0,30.0,"),
            std::string::npos)
      << rows;
  EXPECT_NE(rows.find("refused for a reason\n"), std::string::npos) << rows;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sluice::bench
