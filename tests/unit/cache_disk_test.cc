// SPDX-License-Identifier: Apache-2.0
// A cache folder that cannot be written: kernels still run, and the reason and the remedy are reported. A
// program that fills a cache gets an error before a second kernel is compiled. A limit on file size simulates
// a full disk.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <filesystem>
#include <new>

#include <sluice/run/jit/build_id.h>
#include <sluice/run/jit/nvrtc_api.h>

#include "cache_fake.h"
#include "tests/skip_or_fail.h"

namespace sluice {
namespace {

using test::cache_at;
using test::entry_file;
using test::FakeCompiler;
using test::TemporaryFolder;

/// Runs `body` in a child process with a limit on file sizes, so that this process keeps its own limit.
/// Returns 0 if `body` does.
int in_child_with_small_files(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit small{.rlim_cur = 1000, .rlim_max = 1000};
    setrlimit(RLIMIT_FSIZE, &small);
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool tells(const std::string& message, std::initializer_list<const char*> parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [&](const char* part) { return message.find(part) != std::string::npos; });
}

TEST(CacheDisk, a_full_one_is_worked_around_and_told) {
  const TemporaryFolder folder;
  EXPECT_EQ(in_child_with_small_files([&] {
              const KernelCache cache(cache_at(folder / "cache"), FakeCompiler{}.seam());
              if (!cache.write_problem().empty() || !cache.get("unit")) return 1;
              return tells(cache.write_problem(), {"File too large", "SLUICE_CACHE_DIR", "cannot be written"})
                         ? 0
                         : 2;
            }),
            0);
}

TEST(CacheDisk, who_fills_a_cache_hears_at_the_first_kernel) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      in_child_with_small_files([&] {
        const FakeCompiler compiler;
        KernelCache cache(cache_at(folder / "cache"), compiler.seam());
        cache.require_disk();
        for (const char* unit : {"one", "two", "three"}) {
          const auto got = cache.get(unit);
          if (got || got.error().code != ErrorCode::io || !tells(got.error().message, {"File too large"}))
            return 1;
        }
        return *compiler.calls == 1 ? 0 : 2;
      }),
      0);
}

TEST(CacheDisk, a_probe_needs_no_kernel) {
  const TemporaryFolder folder;
  const KernelCache good(cache_at(folder / "cache"), FakeCompiler{}.seam());
  EXPECT_EQ(good.probe_disk(), "");
  EXPECT_EQ(test::files_in(folder / "cache"), 0) << "nothing is left";
  EXPECT_EQ(in_child_with_small_files([&] {
              const KernelCache cache(cache_at(folder / "cache"), FakeCompiler{}.seam());
              return tells(cache.probe_disk(), {"File too large", "SLUICE_CACHE_DIR"}) ? 0 : 1;
            }),
            0);
}

TEST(CacheDisk, a_folder_in_place_of_an_entry_or_a_lock_is_named) {
  for (const char* ending : {"", ".lock"}) {
    const TemporaryFolder folder;
    const std::string path = entry_file(folder / "cache", "unit") + ending;
    std::filesystem::create_directories(path);
    std::filesystem::permissions(folder / "cache", std::filesystem::perms::owner_all);
    test::write_file(path + "/precious", "data");
    const KernelCache cache(cache_at(folder / "cache"), FakeCompiler{}.seam());
    EXPECT_TRUE(cache.get("unit"));
    EXPECT_TRUE(tells(cache.write_problem(), {std::filesystem::path(path).filename().c_str()}))
        << cache.write_problem();
  }
}

TEST(CacheKey, versions_are_ordered_by_number) {
  for (const auto& [older, newer] : {std::pair("x.NVRTC_13.9.cubin", "x.NVRTC_13.10.cubin"),
                                     std::pair("x.NVRTC_13.0_0a.cubin", "x.NVRTC_13.1_00.cubin"),
                                     std::pair("x.NVRTC_9.99.cubin", "x.NVRTC_13.0.cubin")}) {
    EXPECT_TRUE(is_older_name(older, newer)) << older;
    EXPECT_FALSE(is_older_name(newer, older)) << older;
    EXPECT_FALSE(is_older_name(older, older)) << older;
  }
  const TemporaryFolder folder;
  for (const char* version : {"fake 13.9", "fake 13.10"})
    ASSERT_TRUE(KernelCache(cache_at(folder / "cache"), FakeCompiler{.version = version}.seam()).get("unit"));
  const KernelCache without(cache_at(folder / "cache"), FakeCompiler{.version = ""}.seam());
  EXPECT_EQ((*without.get("unit"))->report.compiler, "fake 13.10");
}

TEST(CacheKey, names_the_build_of_the_compiler) {
  const auto found = locate_nvrtc("");
  ASSERT_TRUE(found);
  if (!std::filesystem::exists(found->file)) SLUICE_SKIP_OR_FAIL("no toolkit here: the loader finds NVRTC");
  const std::string id = build_id_of(found->file);
  EXPECT_EQ(id.size(), 12u);
  EXPECT_TRUE(nvrtc_compiler("").version().ends_with(" " + id));
  EXPECT_EQ(build_id_of("/no/such"), "");
  const TemporaryFolder folder;
  std::string damaged = test::read_file(found->file).substr(0, 4096);
  // Overwrites offsets with numbers past the end.
  for (std::size_t i = 16; i < damaged.size(); i += 3) damaged[i] = '\xff';
  test::write_file(folder / "damaged", damaged);
  EXPECT_EQ(build_id_of(folder / "damaged"), "");
}

TEST(Cache, what_a_compiler_throws_on_a_helper_thread_is_an_error) {
  const TemporaryFolder folder;
  const CompilerSeam seam{.version = [] { return "fake 1.0"; },
                          .compile = [](const std::string&) -> Result<Cubin> { throw std::bad_alloc(); }};
  const KernelCache cache(cache_at(folder / "cache"), seam);
  const std::vector<std::string> units{"a", "b", "c", "d"};
  const auto results = cache.get_all(units, 4, {});
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("too little memory"), std::string::npos) << result.error().message;
  }
}

}  // namespace
}  // namespace sluice
