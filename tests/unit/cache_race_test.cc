// SPDX-License-Identifier: Apache-2.0
// Processes that start at once with an empty cache: all must succeed, no key is compiled twice, and a killed
// process blocks no other. To see it fail: let lock() return without flock; keys are then compiled up to 16
// times.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <sstream>
#include <thread>

#include <sluice/run/jit/cache_directory.h>

#include "cache_fake.h"
#include "tests/skip_or_fail.h"

extern char** environ;

namespace sluice {
namespace {

using test::cache_at;
using test::fake_cubin;
using test::TemporaryFolder;

constexpr int kProcesses = 16;
constexpr const char* kFolderVariable = "SLUICE_TEST_RACE_FOLDER";
constexpr const char* kSmallUnit = "extern \"C\" __global__ void sluice_entry(int* p) { *p = 1; }\n";

/// Starts this test program again with one disabled test, in a new process that inherits no state.
pid_t spawn_self(const char* test) {
  const std::string filter = std::string("--gtest_filter=CacheRace.DISABLED_") + test;
  std::string program = "/proc/self/exe", disabled = "--gtest_also_run_disabled_tests",
              quiet = "--gtest_brief=1";
  std::string filter_argument = filter;
  char* const arguments[] = {program.data(), filter_argument.data(), disabled.data(), quiet.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? child : -1;
}

int exit_code(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void race(const char* test, const TemporaryFolder& folder) {
  setenv(kFolderVariable, (folder / "").c_str(), 1);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) children.push_back(spawn_self(test));
  test::write_file(folder / "go", "");
  for (const pid_t child : children) {
    ASSERT_GT(child, 0);
    EXPECT_EQ(exit_code(child), 0);
  }
}

/// Counts how often each line occurs in the log to which the children append.
std::map<std::string, int> compiled(const TemporaryFolder& folder) {
  std::map<std::string, int> counts;
  std::istringstream log(test::read_file(folder / "log"));
  for (std::string line; std::getline(log, line);) ++counts[line];
  return counts;
}

std::string race_folder() {
  const char* folder = getenv(kFolderVariable);
  return folder != nullptr ? folder : "";
}
/// Waits until all children exist, so that they start at the same time.
void wait_for_go(const std::string& folder) {
  while (!std::filesystem::exists(folder + "go")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
void append_line(const std::string& path, const std::string& line) {
  const FileHandle file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  const std::string bytes = line + "\n";
  ASSERT_EQ(write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
}

constexpr int kKeys = 30;

TEST(CacheRace, DISABLED_child) {
  const std::string folder = race_folder();
  if (folder.empty()) GTEST_SKIP() << "is started by sixteen_processes_compile_each_key_once";
  const CompilerSeam seam{.version = [] { return std::string("fake 1.0"); },
                          .compile = [&](const std::string& unit) -> Result<Cubin> {
                            append_line(folder + "log", unit);
                            std::this_thread::sleep_for(std::chrono::milliseconds(5));
                            return fake_cubin(unit);
                          }};
  const KernelCache cache(cache_at(folder + "cache"), seam);
  wait_for_go(folder);
  for (int i = 0; i < kKeys; ++i) {
    const std::string unit = "unit" + std::to_string(i);
    const auto got = cache.get(unit);
    ASSERT_TRUE(got);
    ASSERT_EQ(**got, fake_cubin(unit));
  }
}

TEST(CacheRace, sixteen_processes_compile_each_key_once) {
  const TemporaryFolder folder;
  race("child", folder);
  const std::map<std::string, int> counts = compiled(folder);
  EXPECT_EQ(counts.size(), kKeys);
  for (const auto& [unit, count] : counts) EXPECT_EQ(count, 1) << unit;
  EXPECT_EQ(test::files_in(folder / "cache"), kKeys) << "no lock or temporary file stays";
}

TEST(CacheRace, DISABLED_nvrtc_child) {
  const std::string folder = race_folder();
  if (folder.empty()) GTEST_SKIP() << "is started by sixteen_processes_with_nvrtc";
  const KernelCache cache(cache_at(folder + "cache"));
  wait_for_go(folder);
  const auto got = cache.get(kSmallUnit);
  ASSERT_TRUE(got) << got.error().message;
  if (cache.stats().compiles == 1) append_line(folder + "log", "compiled");
}

TEST(CacheRace, sixteen_processes_with_nvrtc) {
  if (!KernelCache(cache_at("")).get(kSmallUnit)) SLUICE_SKIP_OR_FAIL("no NVRTC on this machine");
  const TemporaryFolder folder;
  race("nvrtc_child", folder);
  EXPECT_EQ(compiled(folder)["compiled"], 1);
}

TEST(CacheRace, a_killed_writer_stops_nobody) {
  const TemporaryFolder folder;
  const std::string entry = test::entry_file(folder / "cache", "unit");
  const std::string name = std::filesystem::path(entry).filename();
  const pid_t child = fork();
  if (child == 0) {  // exits after creating its temporary file, before renaming it
    const auto directory = CacheDirectory::open(folder / "cache", CacheDirectory::Access::read_write);
    const auto lock = directory->lock(name, std::chrono::seconds(1));
    test::write_file(entry + ".tmp", "half");
    kill(getpid(), SIGKILL);
  }
  exit_code(child);
  ASSERT_TRUE(std::filesystem::exists(entry + ".tmp"));
  ASSERT_TRUE(std::filesystem::exists(entry + ".lock"));
  const KernelCache cache(cache_at(folder / "cache"), test::FakeCompiler{}.seam());
  EXPECT_EQ(**cache.get("unit"), fake_cubin("unit"));
  EXPECT_EQ(cache.stats().write_failures, 0);
  EXPECT_EQ(test::files_in(folder / "cache"), 1) << "what the dead one left is gone";
}

TEST(CacheRace, a_lock_that_is_not_given_up_times_out) {
  const TemporaryFolder folder;
  const auto directory = CacheDirectory::open(folder / "cache", CacheDirectory::Access::read_write);
  ASSERT_TRUE(directory);
  const auto held = directory->lock("name", std::chrono::milliseconds(0));
  ASSERT_TRUE(held);
  EXPECT_FALSE(directory->lock("name", std::chrono::milliseconds(30)));
  EXPECT_TRUE(directory->lock("other", std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace sluice
