// SPDX-License-Identifier: Apache-2.0
// The built tool with hostile arguments. Each is refused with exit code 2, in one line without control
// characters. Each of them once crashed the tool, hung, took gigabytes or wrote control characters to the
// terminal.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "cache_fake.h"
#include "run_tool.h"

namespace sluice {
namespace {

void expect_refused(const std::string& arguments, const std::string& part) {
  const Outcome outcome = run_tool("", arguments);
  EXPECT_EQ(outcome.code, 2) << arguments;
  EXPECT_TRUE(outcome.has(part)) << outcome.text;
  EXPECT_LT(outcome.text.size(), 2000u);
  EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1) << outcome.text;
  EXPECT_TRUE(std::none_of(outcome.text.begin(), outcome.text.end(),
                           [](char c) { return c == '\x1b' || c == '\0'; }));
}

TEST(cli_hostile, overrides_whose_product_wraps_around) {
  expect_refused("run --device host --no-compile --shape 64x64x64 --dtype bf16 --cluster 9x954437177",
                 "cluster_m = 9 must be in 1..8; give such a number");
  expect_refused("plan --device host --shape 64x64x64 --cluster 1x1x2147483647", "cluster_k = 2147483647");
  expect_refused("plan --device host --shape 16x512x2048 --weights int4 --k-groups 9223372036854775807",
                 "--k-groups: 9223372036854775807 must be in 1..4");
}

TEST(cli_hostile, problem_files) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "problems", verb = "compile --device host --shapes '" + file + "'";
  test::write_file(file, "[{\"m\":" + std::string(100000, '[') + std::string(100000, ']') + "}]");
  expect_refused(verb, "nested deeper");
  std::string marks;
  for (int i = 0; i < 100000; ++i) marks += "\xEF\xBB\xBF";
  test::write_file(file, marks + "64x64x64\n");
  expect_refused(verb, "line 1");
  test::write_file(file, std::string("64x64x64\0\x1b[31m", 14));
  expect_refused(verb, "\\x00\\x1b[31m");
  std::filesystem::resize_file(file, 20u << 20);
  expect_refused(verb, "more than 16777216 bytes");
}

TEST(cli_hostile, words_with_control_characters) {
  expect_refused("plan --device host --shape \"$(printf '64x64x64\\nx')\"", "64x64x64\\nx");
  expect_refused("\"$(printf '\\033[31mrun')\"", "\\x1b[31mrun");
  expect_refused("plan --shape 8x8x8 --device \"$(printf '\\033]0;x\\007')\"", "\\x1b]0;x\\x07");
  expect_refused("plan \"$(printf '\\055-\\033[2J')\"", "there is no flag \"--\\x1b[2J\"");
}

TEST(cli_hostile, flags_without_effect_and_unknown_ones) {
  expect_refused("pack --nope", "there is no flag \"--nope\"");
  expect_refused("plan --nope 3", "there is no flag \"--nope\"");
  expect_refused("plan --device host --shape 64x64x64 --combine separate", "--combine has no effect");
  for (const char* sums : {"promoted", "fast"})
    expect_refused(std::string("plan --device host --shape 64x64x64 --accumulate ") + sums,
                   "no effect on 16-bit inputs");
  expect_refused("chain --device host --tokens 1,,2", "--tokens \"1,,2\" has an empty value");
  expect_refused(
      "plan --device host --shape 16x512x2048 --weights int4 --group 33",
      "weights uint4, group 33, fp16 scales, no zeros, order half: group must be 32, 64, 128, or 0");
}

TEST(cli_hostile, a_read_only_or_occupied_cache) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "cache/probe.lock/x");
  std::filesystem::permissions(folder / "cache", std::filesystem::perms::owner_all);
  const Outcome doctor = run_tool("SLUICE_CACHE_DIR='" + (folder / "cache") + "'", "doctor --no-gpu");
  EXPECT_TRUE(doctor.has("probe.lock")) << doctor.text;
  EXPECT_TRUE(doctor.has("SLUICE_CACHE_DIR")) << doctor.text;
}

}  // namespace
}  // namespace sluice
