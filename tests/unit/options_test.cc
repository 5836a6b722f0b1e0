// SPDX-License-Identifier: Apache-2.0
// Environment variables: each one, its default, and invalid values.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include <sluice/options.h>

namespace sluice {
namespace {

constexpr const char* kVariables[] = {"SLUICE_CACHE_DIR",
                                      "SLUICE_CACHE_READ_ONLY",
                                      "SLUICE_NVRTC",
                                      "SLUICE_JOBS",
                                      "SLUICE_RACE",
                                      "XDG_CACHE_HOME",
                                      "HOME",
                                      "CUDA_PATH",
                                      "SLUICE_RECORDS_DIR",
                                      "XDG_DATA_HOME",
                                      "SLUICE_KERNEL_LOG"};

/// Calls `read` with only these environment variables set, and restores the environment.
template <class Read>
auto read_with(const std::map<std::string, std::string>& environment, const Read& read) {
  std::map<std::string, std::optional<std::string>> saved;
  for (const char* name : kVariables) {
    const char* value = getenv(name);
    saved[name] = value != nullptr ? std::optional<std::string>(value) : std::nullopt;
    unsetenv(name);
  }
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  const auto found = read();
  for (const auto& [name, value] : saved)
    value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  return found;
}

Options options_with(const std::map<std::string, std::string>& environment) {
  return read_with(environment, options_from_environment);
}

TEST(Options, an_empty_environment_keeps_nothing_on_disk) {
  const Options options = options_with({});
  EXPECT_EQ(options.cache_dir, "");
  EXPECT_FALSE(options.cache_read_only);
  EXPECT_EQ(options.nvrtc_path, "");
  EXPECT_EQ(options.jobs, 0);
}

TEST(Options, the_cache_follows_the_xdg_rules) {
  EXPECT_EQ(options_with({{"HOME", "/home/a"}}).cache_dir, "/home/a/.cache/sluice");
  EXPECT_EQ(options_with({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "/x"}}).cache_dir, "/x/sluice");
  EXPECT_EQ(options_with({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "x"}}).cache_dir, "/home/a/.cache/sluice")
      << "a relative one is to be ignored";
  EXPECT_EQ(options_with({{"HOME", "here"}}).cache_dir, "") << "never the current directory";
  EXPECT_EQ(options_with({{"HOME", "/home/a"}, {"SLUICE_CACHE_DIR", "/c"}}).cache_dir, "/c");
  EXPECT_EQ(options_with({{"HOME", "/home/a"}, {"SLUICE_CACHE_DIR", ""}}).cache_dir, "") << "switched off";
  EXPECT_EQ(options_with({{"SLUICE_CACHE_DIR", "c"}}).cache_dir, std::filesystem::current_path() / "c");
}

TEST(Options, the_records_follow_the_xdg_rules) {
  EXPECT_EQ(options_with({}).records_dir, "");
  EXPECT_EQ(options_with({{"HOME", "/home/a"}}).records_dir, "/home/a/.local/share/sluice/records");
  EXPECT_EQ(options_with({{"HOME", "/home/a"}, {"XDG_DATA_HOME", "/x"}}).records_dir, "/x/sluice/records");
  EXPECT_EQ(options_with({{"HOME", "/home/a"}, {"SLUICE_RECORDS_DIR", "/r"}}).records_dir, "/r");
  EXPECT_EQ(options_with({{"HOME", "/home/a"}, {"SLUICE_RECORDS_DIR", ""}}).records_dir, "")
      << "switched off";
}

TEST(Options, read_only_and_jobs_take_only_what_they_mean) {
  for (const char* yes : {"1", "true", "yes", "on", "TRUE", "Yes", "oN"})
    EXPECT_TRUE(options_with({{"SLUICE_CACHE_READ_ONLY", yes}}).cache_read_only) << yes;
  for (const char* no : {"", "0", "false", "maybe"})
    EXPECT_FALSE(options_with({{"SLUICE_CACHE_READ_ONLY", no}}).cache_read_only) << no;
  EXPECT_EQ(options_with({{"SLUICE_JOBS", "7"}}).jobs, 7);
  EXPECT_EQ(options_with({{"SLUICE_RACE", "3"}}).race, 3);
  EXPECT_EQ(options_with({{"SLUICE_RACE", "0"}}).race, 0) << "no race, which differs from nothing said";
  for (const char* none : {"", "17", "-1", "3x", "three"})
    EXPECT_EQ(options_with({{"SLUICE_RACE", none}}).race, kUsualRace) << none;
  for (const char* none : {"", "-1", "7x", "99999999999", "2000"})
    EXPECT_EQ(options_with({{"SLUICE_JOBS", none}}).jobs, 0) << none;
}

TEST(Options, values_that_mean_nothing_are_named_with_what_would) {
  const auto troubles = [](const std::map<std::string, std::string>& environment) {
    return read_with(environment, environment_troubles);
  };
  EXPECT_TRUE(troubles({}).empty());
  EXPECT_TRUE(troubles({{"SLUICE_CACHE_READ_ONLY", ""}, {"SLUICE_JOBS", ""}}).empty()) << "as if not set";
  EXPECT_TRUE(troubles({{"SLUICE_CACHE_READ_ONLY", "OFF"}, {"SLUICE_JOBS", "0"}}).empty());
  const std::vector<std::string> found =
      troubles({{"SLUICE_CACHE_READ_ONLY", "foo"}, {"SLUICE_JOBS", "2000"}, {"SLUICE_RACE", "17"}});
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(
      found[0],
      "SLUICE_CACHE_READ_ONLY=foo means nothing: it must be 1, true, yes, on or 0, false, no, off; set it "
      "so, or unset it");
  EXPECT_EQ(found[1].find("SLUICE_JOBS=2000 means nothing: it must be in 0..1024"), 0u);
  EXPECT_EQ(found[2].find("SLUICE_RACE=17 means nothing: it must be in 0..16"), 0u);
}

TEST(Options, a_log_of_kernels_has_an_absolute_path) {
  EXPECT_EQ(options_with({}).kernel_log, "");
  EXPECT_EQ(options_with({{"SLUICE_KERNEL_LOG", "/tmp/log"}}).kernel_log, "/tmp/log");
  EXPECT_EQ(options_with({{"SLUICE_KERNEL_LOG", "log"}}).kernel_log, std::filesystem::current_path() / "log");
}

TEST(Options, nvrtc_is_the_chosen_one_or_that_of_cuda_path) {
  EXPECT_EQ(options_with({{"SLUICE_NVRTC", "/n/libnvrtc.so.13"}, {"CUDA_PATH", "/c"}}).nvrtc_path,
            "/n/libnvrtc.so.13");
  EXPECT_EQ(options_with({{"CUDA_PATH", "/no/such/toolkit"}}).nvrtc_path, "") << "an older toolkit has none";
  const std::string toolkit = testing::TempDir() + "sluice_toolkit";
  std::filesystem::create_directories(toolkit + "/lib64");
  std::ofstream(toolkit + "/lib64/libnvrtc.so.13") << "x";
  EXPECT_EQ(options_with({{"CUDA_PATH", toolkit}}).nvrtc_path, toolkit + "/lib64/libnvrtc.so.13");
  std::filesystem::remove_all(toolkit);
}

}  // namespace
}  // namespace sluice
