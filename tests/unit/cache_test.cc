// SPDX-License-Identifier: Apache-2.0
// The kernel cache with a fake compiler: every kind of lookup, and disk errors, which must only cost time.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <thread>

#include "cache_fake.h"

namespace sluice {
namespace {

using test::cache_at;
using test::entry_file;
using test::fake_cubin;
using test::FakeCompiler;
using test::TemporaryFolder;

namespace fs = std::filesystem;

/// Runs `body` in a child process and returns its exit code. Used for limits and user identities, which
/// cannot be restored.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Cache, finds_in_memory_then_on_disk) {
  const TemporaryFolder folder;
  const FakeCompiler compiler;
  const KernelCache first(cache_at(folder / "cache"), compiler.seam());
  ASSERT_EQ(first.disk_problem(), "");
  EXPECT_EQ(**first.get("unit"), fake_cubin("unit"));
  EXPECT_EQ(first.get("unit")->get(), first.get("unit")->get()) << "shared, not copied";
  EXPECT_EQ(first.stats().memory_hits, 2);
  const KernelCache second(cache_at(folder / "cache"), compiler.seam());
  EXPECT_EQ(**second.get("unit"), fake_cubin("unit")) << "every field of the report comes back too";
  EXPECT_EQ(second.stats().disk_hits, 1);
  EXPECT_EQ(*compiler.calls, 1);
}

TEST(Cache, logs_each_kernel_of_a_process_once) {
  const TemporaryFolder folder;
  Options options = cache_at(folder / "cache");
  options.kernel_log = folder / "log";
  const auto lines = [&] {
    std::ifstream log(folder / "log");
    std::vector<std::string> all;
    for (std::string line; std::getline(log, line);) all.push_back(line);
    return all;
  };
  const std::string unit = "a\n\\b\n";
  {
    const KernelCache first(options, FakeCompiler{}.seam());
    ASSERT_TRUE(first.get(unit) && first.get(unit));
    CompilerSeam broken = FakeCompiler{}.seam();
    broken.compile = [](const std::string&) -> Result<Cubin> { return Error{ErrorCode::toolchain, "no"}; };
    ASSERT_FALSE(KernelCache(options, broken).get("fails"));
  }
  ASSERT_EQ(lines().size(), 1u) << "a second request adds nothing, and neither does a failure";
  const std::string name = fs::path(entry_file(folder / "cache", unit)).filename();
  EXPECT_EQ(lines()[0], name + "\ta\\n\\\\b\\n") << "the entry's file, and the unit in one line";
  ASSERT_TRUE(KernelCache(options, FakeCompiler{}.seam()).get(unit));
  EXPECT_EQ(lines().size(), 2u) << "a kernel from disk is logged too, and the file goes on";
}

TEST(Cache, folder_is_private_and_holds_only_entries) {
  const TemporaryFolder folder;
  const KernelCache cache(cache_at(folder / "a/b/cache"), FakeCompiler{}.seam());
  ASSERT_TRUE(cache.get("unit"));
  EXPECT_EQ(fs::status(folder / "a/b/cache").permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(entry_file(folder / "a/b/cache", "unit")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(test::files_in(folder / "a/b/cache"), 1) << "no lock and no temporary file stays";
}

TEST(Cache, another_compiler_is_another_entry) {
  const TemporaryFolder folder;
  const FakeCompiler old_one, new_one{.version = "fake 2.0"};
  ASSERT_TRUE(KernelCache(cache_at(folder / "cache"), old_one.seam()).get("unit"));
  EXPECT_EQ((*KernelCache(cache_at(folder / "cache"), new_one.seam()).get("unit"))->report.compiler,
            "fake 2.0");
  EXPECT_EQ(*new_one.calls, 1);
  EXPECT_EQ((*KernelCache(cache_at(folder / "cache"), old_one.seam()).get("unit"))->report.compiler,
            "fake 1.0");
  EXPECT_EQ(*old_one.calls, 1) << "the two do not replace each other";
}

TEST(Cache, read_only_uses_what_is_there_and_writes_nothing) {
  const TemporaryFolder folder;
  const FakeCompiler maker, user{.version = "fake 2.0"};
  ASSERT_TRUE(KernelCache(cache_at(folder / "cache"), maker.seam()).get("shipped"));
  Options options = cache_at(folder / "cache");
  options.cache_read_only = true;
  const KernelCache cache(options, user.seam());
  EXPECT_EQ((*cache.get("shipped"))->report.compiler, "fake 1.0") << "a shipped cache was made elsewhere";
  EXPECT_EQ(*user.calls, 0);
  EXPECT_TRUE(cache.get("other"));
  EXPECT_EQ(*user.calls, 1);
  EXPECT_EQ(test::files_in(folder / "cache"), 1);

  test::write_file(entry_file(folder / "cache", "shipped"), "damaged");
  EXPECT_TRUE(KernelCache(options, user.seam()).get("shipped"));
  EXPECT_EQ(test::read_file(entry_file(folder / "cache", "shipped")), "damaged") << "not ours to repair";

  options.cache_dir = folder / "absent";
  EXPECT_NE(KernelCache(options, user.seam()).disk_problem(), "");
  EXPECT_FALSE(fs::exists(folder / "absent")) << "read-only creates no folder";
}

TEST(Cache, without_a_compiler_a_filled_cache_is_enough) {
  const TemporaryFolder folder;
  ASSERT_TRUE(KernelCache(cache_at(folder / "cache"), FakeCompiler{}.seam()).get("unit"));
  const CompilerSeam none{.version = [] { return std::string(); },
                          .compile = [](const std::string&) -> Result<Cubin> {
                            return Error{ErrorCode::toolchain, "none here"};
                          }};
  const KernelCache cache(cache_at(folder / "cache"), none);
  EXPECT_TRUE(cache.get("unit"));
  EXPECT_EQ(cache.get("other").error().code, ErrorCode::toolchain);
}

TEST(Cache, a_failed_compile_is_not_remembered) {
  const TemporaryFolder folder;
  int calls = 0;
  const CompilerSeam repaired_later{.version = [] { return std::string("fake 1.0"); },
                                    .compile = [&](const std::string& unit) -> Result<Cubin> {
                                      if (++calls == 1) return Error{ErrorCode::toolchain, "not today"};
                                      return fake_cubin(unit);
                                    }};
  const KernelCache cache(cache_at(folder / "cache"), repaired_later);
  EXPECT_EQ(cache.get("unit").error().message, "not today");
  EXPECT_TRUE(cache.get("unit"));
  EXPECT_EQ(test::files_in(folder / "cache"), 1);
}

/// The compiler's version must be read again after the compiler appears. Otherwise the second compile works
/// but is not stored.
TEST(Cache, a_compiler_that_comes_later_is_used_and_its_work_kept) {
  const TemporaryFolder folder;
  bool installed = false;
  const CompilerSeam late{.version = [&] { return std::string(installed ? "fake 1.0" : ""); },
                          .compile = [&](const std::string& unit) -> Result<Cubin> {
                            if (!installed) return Error{ErrorCode::toolchain, "none here"};
                            return fake_cubin(unit);
                          }};
  const KernelCache cache(cache_at(folder / "cache"), late);
  EXPECT_EQ(cache.get("unit").error().code, ErrorCode::toolchain);
  installed = true;
  EXPECT_TRUE(cache.get("unit"));
  EXPECT_TRUE(fs::exists(entry_file(folder / "cache", "unit")));
}

TEST(Cache, entries_that_others_own_or_may_change_are_compiled_anew) {
  const TemporaryFolder folder;
  const FakeCompiler compiler;
  const auto entry = [&] { return entry_file(folder / "cache", "unit"); };
  ASSERT_TRUE(KernelCache(cache_at(folder / "cache"), compiler.seam()).get("unit"));
  const auto expect_replaced = [&](const char* why) {
    *compiler.calls = 0;
    const KernelCache cache(cache_at(folder / "cache"), compiler.seam());
    EXPECT_TRUE(cache.get("unit"));
    EXPECT_EQ(*compiler.calls, 1) << why;
    EXPECT_EQ(cache.stats().damaged, 1) << why;
    struct stat status {};
    ASSERT_EQ(stat(entry().c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, geteuid()) << why;
    EXPECT_EQ(status.st_mode & 0777, 0600u) << why;
  };
  for (const mode_t mode : {0620, 0602}) {
    ASSERT_EQ(chmod(entry().c_str(), mode), 0);
    expect_replaced("writable by group or others");
  }
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(entry().c_str(), 65534, 65534), 0);
  expect_replaced("of another user");
}

TEST(Cache, entries_of_root_are_trusted_by_everybody) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const TemporaryFolder folder;
  ASSERT_TRUE(KernelCache(cache_at(folder / "cache"), FakeCompiler{}.seam()).get("unit"));
  fs::permissions(folder / "", fs::perms(0755));
  fs::permissions(folder / "cache", fs::perms(0755));
  fs::permissions(entry_file(folder / "cache", "unit"), fs::perms(0644));
  EXPECT_EQ(in_child([&] {
              if (seteuid(65534) != 0) return 1;
              Options shipped = cache_at(folder / "cache");
              shipped.cache_read_only = true;
              const KernelCache cache(shipped, FakeCompiler{}.seam());
              return cache.get("unit") && cache.stats().disk_hits == 1 ? 0 : 2;
            }),
            0);
}

TEST(Cache, refuses_folders_that_others_could_change) {
  const TemporaryFolder folder;
  const FakeCompiler compiler;
  fs::create_directory(folder / "real");
  fs::create_symlink(folder / "real", folder / "link");
  test::write_file(folder / "file", "");
  fs::create_directory(folder / "open");
  fs::permissions(folder / "open", fs::perms::all);
  for (const char* name : {"link", "file", "open"}) {
    const KernelCache cache(cache_at(folder / name), compiler.seam());
    EXPECT_NE(cache.disk_problem(), "") << name;
    EXPECT_TRUE(cache.get("unit")) << name << ": memory only";
  }
  EXPECT_EQ(test::files_in(folder / "real"), 0);
  EXPECT_EQ(test::files_in(folder / "open"), 0);
  EXPECT_NE(KernelCache(cache_at(""), compiler.seam()).disk_problem(), "");
}

/// The folder may be a link with a trailing slash. open() follows such a link. mkdir() would create the
/// folder as its own parent, readable by everyone.
TEST(Cache, a_slash_behind_a_folder_changes_nothing) {
  const TemporaryFolder folder;
  const FakeCompiler compiler;
  for (const char* name : {"made/", "deep/made/", "dot/."}) {
    const KernelCache cache(cache_at(folder / name), compiler.seam());
    EXPECT_EQ(cache.disk_problem(), "") << name;
    struct stat status {};
    ASSERT_EQ(stat((folder / name).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u) << name;
  }
  fs::create_directory(folder / "real");
  fs::create_symlink(folder / "real", folder / "link");
  EXPECT_NE(KernelCache(cache_at(folder / "link/"), compiler.seam()).disk_problem(), "");
}

TEST(Cache, refuses_folders_of_another_user) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const TemporaryFolder folder;
  fs::create_directory(folder / "roots");
  fs::permissions(folder / "", fs::perms(0755));
  fs::permissions(folder / "roots", fs::perms(0755));
  EXPECT_EQ(in_child([&] {
              if (seteuid(65534) != 0) return 1;
              const KernelCache cache(cache_at(folder / "roots"), FakeCompiler{}.seam());
              if (cache.disk_problem().find("another user") == std::string::npos) return 2;
              Options shipped = cache_at(folder / "roots");
              shipped.cache_read_only = true;
              if (!KernelCache(shipped, FakeCompiler{}.seam()).disk_problem().empty()) return 3;
              return cache.get("unit") ? 0 : 4;
            }),
            0);
}

TEST(Cache, goes_on_without_permission) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "closed");
  fs::permissions(folder / "", fs::perms(0755));
  fs::permissions(folder / "closed", fs::perms::none);
  EXPECT_EQ(in_child([&] {
              if (geteuid() == 0 && seteuid(65534) != 0) return 1;  // root would be allowed to write
              const KernelCache cache(cache_at(folder / "closed/cache"), FakeCompiler{}.seam());
              if (cache.disk_problem().empty()) return 2;
              return cache.get("unit") ? 0 : 3;
            }),
            0);
}

TEST(Cache, goes_on_when_the_disk_is_full) {
  const TemporaryFolder folder;
  EXPECT_EQ(in_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit small{.rlim_cur = 1000, .rlim_max = 1000};
              setrlimit(RLIMIT_FSIZE, &small);
              const KernelCache cache(cache_at(folder / "cache"), FakeCompiler{}.seam());
              const auto got = cache.get("unit");
              if (!got || **got != fake_cubin("unit")) return 1;
              return cache.stats().write_failures == 1 ? 0 : 2;
            }),
            0);
  EXPECT_EQ(test::files_in(folder / "cache"), 0) << "neither the half entry nor its temporary";
}

/// Returns the CPU time of this thread, because the wall clock includes other work on the machine.
double cpu_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

TEST(Cache, a_warm_load_takes_less_than_a_millisecond) {
  const TemporaryFolder folder;
  const FakeCompiler compiler;
  const int count = 50;
  const auto unit = [](int i) { return "unit " + std::to_string(i); };
  const KernelCache maker(cache_at(folder / "cache"), compiler.seam());
  for (int i = 0; i < count; ++i) ASSERT_TRUE(maker.get(unit(i)));
  const KernelCache cache(cache_at(folder / "cache"), compiler.seam());
  std::vector<double> milliseconds;
  for (int i = 0; i < count; ++i) {
    const double begin = cpu_milliseconds();
    ASSERT_TRUE(cache.get(unit(i)));
    milliseconds.push_back(cpu_milliseconds() - begin);
  }
  EXPECT_EQ(cache.stats().disk_hits, count);
  std::sort(milliseconds.begin(), milliseconds.end());
  RecordProperty("median_us", static_cast<int>(milliseconds[count / 2] * 1000));
  EXPECT_LE(milliseconds[count / 2], 1.0);
}

TEST(Cache, threads_that_want_the_same_unit_share_one_compile) {
  const FakeCompiler counting;
  CompilerSeam slow = counting.seam();
  slow.compile = [inner = slow.compile](const std::string& unit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return inner(unit);
  };
  const KernelCache cache(cache_at(""), slow);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&] {
      const auto got = cache.get("unit");
      if (got && **got == fake_cubin("unit")) ++right;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 16);
  EXPECT_EQ(*counting.calls, 1);
}

TEST(Cache, get_all_answers_in_order_and_compiles_equal_units_once) {
  const FakeCompiler compiler;
  CompilerSeam seam = compiler.seam();
  seam.compile = [inner = seam.compile](const std::string& unit) -> Result<Cubin> {
    if (unit == "bad") return Error{ErrorCode::toolchain, "bad unit"};
    return inner(unit);
  };
  const KernelCache cache(cache_at(""), seam);
  const std::vector<std::string> units = {"a", "b", "a", "bad", "c", "b"};
  std::vector<int> steps;
  const auto results = cache.get_all(units, 4, [&](int done, int total) {
    EXPECT_EQ(total, 4);
    steps.push_back(done);
  });
  ASSERT_EQ(results.size(), units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    if (units[i] == "bad")
      EXPECT_EQ(results[i].error().message, "bad unit");
    else
      EXPECT_EQ(**results[i], fake_cubin(units[i]));
  }
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(*compiler.calls, 3);
  EXPECT_TRUE(cache.get_all({}, 4, {}).empty());
}

}  // namespace
}  // namespace sluice
