// SPDX-License-Identifier: Apache-2.0
// Runs the built tool as a user does on a machine without a GPU: exit codes, stdout, form of errors. Every
// run has its own cache folder. Fails if a verb, a flag or an exit code changes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "run_tool.h"

namespace {

using sluice::Outcome;

class CliEndToEnd : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "sluice_cli_" + std::to_string(getpid());
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Outcome sluice(const std::string& arguments, const std::string& environment = "") const {
    return sluice::run_tool(environment + " SLUICE_RECORDS_DIR= SLUICE_CACHE_DIR='" + folder_ + "/cache'",
                            arguments);
  }
  std::string path(const char* name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(CliEndToEnd, help_lists_every_verb) {
  const Outcome outcome = sluice("--help");
  EXPECT_EQ(outcome.code, 0);
  for (const char* verb : {"run", "plan", "compile", "bench", "chain", "tune", "doctor", "pack"})
    EXPECT_TRUE(outcome.has(verb)) << verb;
  const Outcome lab = sluice("fit --constants");
  EXPECT_EQ(lab.code, 0) << lab.text;
}

TEST_F(CliEndToEnd, run_on_the_host_compiles_once_and_verifies) {
  const std::string problem = "run --device host --shape 130x72x64 --bias --activation relu";
  const Outcome first = sluice(problem);
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_TRUE(first.has("compiled in")) << first.text;
  EXPECT_TRUE(first.has("0 bytes spilled")) << first.text;
  EXPECT_TRUE(first.has("yes: 9360 elements")) << first.text;
  const Outcome second = sluice(problem);
  EXPECT_EQ(second.code, 0) << second.text;
  EXPECT_TRUE(second.has("cached, read in")) << second.text;
}

TEST_F(CliEndToEnd, overrides_reach_the_plan) {
  const Outcome outcome = sluice(
      "plan --shape 512x512x512 --device host --schedule cooperative --tile 128x128 --stages 3 --unit");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(outcome.has("cooperative")) << outcome.text;
  EXPECT_TRUE(outcome.has(".stages = 3")) << outcome.text;
  EXPECT_TRUE(outcome.has("sluice_entry")) << outcome.text;
}

TEST_F(CliEndToEnd, plan_says_whose_rates_it_takes_and_where_they_come_from) {
  const Outcome brief = sluice("plan --shape 512x512x512 --device host");
  EXPECT_TRUE(brief.has("gpu        NVIDIA H200, 132 SMs\n")) << brief.text;
  EXPECT_FALSE(brief.has("TB/s")) << brief.text;
  const Outcome here = sluice("plan --shape 512x512x512 --device host --verbose");
  EXPECT_TRUE(here.has("NVIDIA H200, 132 SMs")) << here.text;
  EXPECT_TRUE(here.has("4.50 TB/s (measured on this GPU type)")) << here.text;
  const Outcome other = sluice("plan --shape 512x512x512 --gpu h100-pcie --verbose");
  EXPECT_EQ(other.code, 0) << other.text;
  EXPECT_TRUE(other.has("NVIDIA H100 PCIe, 114 SMs")) << other.text;
  EXPECT_TRUE(other.has("(estimated)")) << other.text;
  EXPECT_FALSE(other.has("measured on")) << other.text;
  const Outcome unknown = sluice("plan --shape 512x512x512 --gpu b200");
  EXPECT_NE(unknown.code, 0);
  EXPECT_TRUE(unknown.has("use one of h200, h100")) << unknown.text;
  EXPECT_NE(sluice("plan --shape 512x512x512 --gpu h20 --device 0").code, 0) << "one or the other";
}

TEST_F(CliEndToEnd, plan_lists_candidates) {
  const Outcome outcome = sluice("plan --shape 4096x4096x4096 --dtype e4m3 --device host --all");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(outcome.has("waves")) << outcome.text;
  EXPECT_TRUE(outcome.has("ping_pong")) << outcome.text;
}

TEST_F(CliEndToEnd, plan_lists_the_first_candidates) {
  const std::string plan = "plan --shape 64x4096x4096 --device host ";
  const auto rows = [&](const std::string& flags) {
    const std::string text = sluice(plan + flags).text;
    const size_t rule = text.find("---");
    return rule == std::string::npos
               ? -1
               : std::count(text.begin() + static_cast<std::ptrdiff_t>(rule), text.end(), '\n') - 1;
  };
  EXPECT_EQ(rows("--top 3"), 3);
  EXPECT_GT(rows("--all"), 100);
  EXPECT_TRUE(sluice(plan + "--top 3 --all").has("excludes")) << "one or the other";
  EXPECT_TRUE(sluice(plan + "--top 0").has("--top: Value 0 not in range"));
}

/// --all prints more than a pipe's buffer holds, so the tool writes to a closed pipe. A shell returns the
/// status of a pipeline's last command; the tool's own status is passed through a file.
TEST_F(CliEndToEnd, a_reader_that_goes_ends_the_tool_in_silence) {
  for (const char* ignored : {"", "trap '' PIPE; "}) {
    for (const char* arguments : {"plan --shape 64x4096x4096 --device host --all", "plan --help"}) {
      SCOPED_TRACE(std::string(ignored) + arguments);
      const std::string command = std::string(ignored) + "{ sleep 0.5; '" SLUICE_BINARY_DIR "/sluice' " +
                                  arguments + " 2>'" + path("said") + "'; echo $? >'" + path("code") +
                                  "'; } | true";
      ASSERT_EQ(std::system(command.c_str()), 0);
      int code = -1;
      std::ifstream(path("code")) >> code;
      EXPECT_EQ(code, 128 + SIGPIPE);
      EXPECT_EQ(std::filesystem::file_size(path("said")), 0u);
    }
  }
}

TEST_F(CliEndToEnd, no_line_of_a_plan_is_longer_than_110_columns) {
  for (const char* arguments :
       {"--shape 4096x4096x4096 --all", "--shape 16x3584x8192 --weights int4 --group 64 --all --verbose",
        "--shape 64x4096x4096 --dtype e4m3 --scale-a vector --scale-b vector --bias --residual --d bf16 "
        "--all",
        "--shape 1x4096x4096 --rows 1:512", "--conv fprop --input 32x64x56x56 --filter 64x3x3 --padding 1"}) {
    std::istringstream text(sluice("plan --gpu h200 " + std::string(arguments)).text);
    for (std::string line; std::getline(text, line);)
      EXPECT_LE(line.size(), 110u) << arguments << "\n" << line;
  }
}

TEST_F(CliEndToEnd, an_empty_product_has_no_kernel) {
  for (const char* problem : {"--shape 0x4096x4096", "--shape 0x512x128 --weights int4"}) {
    const Outcome outcome = sluice("plan --device host " + std::string(problem));
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_TRUE(outcome.has("kernel     none: D has no elements, so there is nothing to launch"))
        << outcome.text;
  }
}

TEST_F(CliEndToEnd, overrides_that_nothing_can_follow_are_answered_in_a_line) {
  const Outcome outcome = sluice("plan --shape 4096x4096x4096 --device host --splits 3");
  EXPECT_EQ(outcome.code, 2) << outcome.text;
  EXPECT_TRUE(outcome.has("the overrides leave no kernel: ")) << outcome.text;
  EXPECT_TRUE(outcome.has("change or leave out splits")) << outcome.text;
  EXPECT_LT(outcome.text.size(), 500u) << outcome.text;
}

TEST_F(CliEndToEnd, int4_is_called_int4) {
  EXPECT_TRUE(sluice("plan --shape 16x3584x8192 --weights int4 --device host")
                  .has("weights    int4 (uint4, zero 8)"));
  EXPECT_TRUE(sluice("plan --shape 16x3584x8192 --weights uint4 --zero per_group --device host")
                  .has("weights    uint4,"));
}

TEST_F(CliEndToEnd, a_machine_without_a_gpu_is_told_in_a_short_line) {
  if (sluice("doctor").has("ok       GPU")) GTEST_SKIP() << "there is a GPU here";
  const Outcome run = sluice("run --shape 64x64x64 --no-compile");
  EXPECT_TRUE(run.has("device     host twin (no usable GPU: `sluice doctor` says what is missing)\n"))
      << run.text;
  for (const char* verb :
       {"bench", "tune --shape 8x8x8 --out x", "rows --shape 1x4096x4096", "calibrate --dry-run"}) {
    const Outcome outcome = sluice(verb);
    EXPECT_EQ(outcome.code, 2) << outcome.text;
    EXPECT_TRUE(outcome.has("measures GPUs: without one")) << outcome.text;
    EXPECT_TRUE(outcome.has("`sluice doctor` says what is missing")) << outcome.text;
  }
  const Outcome named = sluice("run --shape 64x64x64 --device 0");
  EXPECT_EQ(named.code, 2) << named.text;
  EXPECT_TRUE(named.has("so no GPU 0: say --device host")) << named.text;
}

TEST_F(CliEndToEnd, compile_fills_a_cache_and_finds_it_full) {
  std::ofstream(path("list.txt")) << "64x64x64\n64x64x64 # again\n64x64x64 --dtype e4m3\n";
  const std::string command = "compile --shapes " + path("list.txt") + " --cache-dir " + path("shipped");
  const Outcome first = sluice(command);
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_TRUE(first.has(
      "3 problems for NVIDIA H200 (132 SMs), and the verifier: 4 compiled, 0 already there, 0 failed"))
      << first.text;
  const Outcome second = sluice(command);
  EXPECT_EQ(second.code, 0) << second.text;
  EXPECT_TRUE(second.has("0 compiled, 4 already there, 0 failed")) << second.text;
}

TEST_F(CliEndToEnd, compile_takes_packed_weights_and_what_packs_them) {
  const std::string command = "compile --weights int4 --shape 4x64x128 --cache-dir " + path("packed");
  const Outcome first = sluice(command);
  EXPECT_EQ(first.code, 0) << first.text;
  EXPECT_TRUE(first.has("6 compiled, 0 already there, 0 failed"))
      << first.text << "the product, its sums, two packers, and the verifier's two";
  EXPECT_TRUE(sluice(command + " --no-records").has("0 compiled, 6 already there")) << "the same kernel";
  EXPECT_TRUE(sluice(command + " --schedule narrow --tile 16x32").has("1 compiled, 5 already there"));
  EXPECT_TRUE(sluice(command + " --splits 2").has("are for weights that are not packed"));
}

TEST_F(CliEndToEnd, compile_refuses_a_cache_that_it_may_not_write) {
  const Outcome outcome = sluice("compile --shape 64x64x64", "SLUICE_CACHE_READ_ONLY=1");
  EXPECT_EQ(outcome.code, 2) << outcome.text;
  EXPECT_TRUE(outcome.has("SLUICE_CACHE_READ_ONLY is set")) << outcome.text;
}

/// No problem of the set can have this tile. If the override were ignored, compiling would succeed.
TEST_F(CliEndToEnd, overrides_reach_every_problem_of_a_set) {
  const Outcome outcome = sluice("compile --set smoke --tile 100x100");
  EXPECT_EQ(outcome.code, 2) << outcome.text;
  EXPECT_TRUE(outcome.has("sluice: invalid_config: 1024x4096x4096 bf16")) << outcome.text;
}

TEST_F(CliEndToEnd, the_host_twin_refuses_what_would_take_it_hours) {
  const Outcome outcome = sluice("run --device host --shape 8192x8192x8192 --dtype e4m3");
  EXPECT_EQ(outcome.code, 2) << outcome.text;
  EXPECT_TRUE(outcome.has("5.5e+11 multiply-adds")) << outcome.text;
  EXPECT_TRUE(outcome.has("a smaller --shape, or run it on a GPU")) << outcome.text;
}

TEST_F(CliEndToEnd, a_convolution_is_planned_run_compiled_and_verified) {
  const std::string conv =
      " --device host --conv dgrad --input 2x16x9x9 --filter 32x3x3 --stride 2 --padding 1";
  const Outcome plan = sluice("plan" + conv);
  EXPECT_EQ(plan.code, 0) << plan.text;
  EXPECT_TRUE(plan.has("dgrad: N 2, C 16, K 32, x 9x9, y 5x5, filter 3x3, stride 2, padding 1")) << plan.text;
  EXPECT_TRUE(plan.has("m 50 n 16 k 256 batch 4")) << plan.text;
  const Outcome run = sluice("run" + conv);
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_TRUE(run.has("0 bytes spilled")) << run.text;
  EXPECT_TRUE(run.has("yes: 2592 elements")) << run.text;
  const Outcome again = sluice("compile" + conv);
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_TRUE(again.has("1 problem for")) << again.text;
  const Outcome pointwise = sluice("plan --device host --conv wgrad --input 2x16x9x9 --filter 32x1x1");
  EXPECT_TRUE(pointwise.has("a plain product, as nothing is gathered")) << pointwise.text;
  EXPECT_TRUE(pointwise.has("m 32 n 16 k 162")) << pointwise.text;
  const Outcome verify = sluice("verify --device host --conv --problems 24");
  EXPECT_EQ(verify.code, 0) << verify.text;
  EXPECT_TRUE(verify.has("24 right, 0 wrong, 0 refused")) << verify.text;
  const Outcome rows = sluice("plan" + conv + " --rows 1:8");
  EXPECT_EQ(rows.code, 2);
  EXPECT_TRUE(rows.has("--rows has no effect on a convolution")) << rows.text;
}

TEST_F(CliEndToEnd, verify_on_the_host_checks_random_problems) {
  const Outcome outcome = sluice("verify --device host --problems 100 --largest 80 --seed 7");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(outcome.has("100 right, 0 wrong, 0 refused")) << outcome.text;
}

TEST_F(CliEndToEnd, errors_have_a_code_a_message_and_exit_code_two) {
  const Outcome name = sluice("plan --shape 8x8x8 --dtype fp64");
  EXPECT_EQ(name.code, 2);
  EXPECT_TRUE(name.text.starts_with("sluice: invalid_argument: ")) << name.text;
  const Outcome flag = sluice("plan --bogus");
  EXPECT_EQ(flag.code, 2);
  EXPECT_TRUE(flag.text.starts_with("sluice: invalid_argument: ")) << flag.text;
  const Outcome config = sluice("plan --shape 64x64x64 --device host --tile 100x100");
  EXPECT_EQ(config.code, 2);
  EXPECT_TRUE(config.text.starts_with("sluice: invalid_config: ")) << config.text;
  EXPECT_EQ(sluice("").code, 2);
}

TEST_F(CliEndToEnd, text_that_is_not_for_a_terminal_has_no_escape_codes) {
  EXPECT_FALSE(sluice("run --device host --shape 64x64x64 --no-compile").has("\x1b"));
  EXPECT_FALSE(sluice("doctor --no-gpu").has("\x1b"));
}

TEST_F(CliEndToEnd, doctor_is_content_with_a_build_machine) {
  const Outcome outcome = sluice("doctor --no-gpu");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(outcome.has("NVRTC 13")) << outcome.text;
  EXPECT_TRUE(outcome.has("ready")) << outcome.text;
}

TEST_F(CliEndToEnd, doctor_misses_a_compiler_and_names_the_remedy) {
  const Outcome outcome = sluice("doctor --no-gpu", "SLUICE_NVRTC=/no/such/libnvrtc.so");
  EXPECT_EQ(outcome.code, 1) << outcome.text;
  EXPECT_TRUE(outcome.has("MISSING  NVRTC")) << outcome.text;
  EXPECT_TRUE(outcome.has("-> install")) << outcome.text;
  EXPECT_TRUE(outcome.has("not ready")) << outcome.text;
}

TEST_F(CliEndToEnd, bench_without_a_gpu_is_an_error) {
  const Outcome outcome = sluice("bench --device host --set smoke");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(outcome.has("bench measures GPUs")) << outcome.text;
  EXPECT_TRUE(sluice("bench --device host --set engin").has("smoke")) << "unknown sets list the known ones";
}

}  // namespace
