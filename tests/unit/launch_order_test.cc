// SPDX-License-Identifier: Apache-2.0
// Launches that block because the queue is full may hold up only launches with the same workspace: not other
// devices or streams, and not threads that prepare or lend. To see it fail: use one mutex for all turns (hold
// `mutex` of workspace_turn.cc for the turn's life), or load modules with Device::Impl::mutex held.
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/workspace_turn.h>

#include "launch_fixture.h"

namespace sluice {
namespace {

using std::chrono::steady_clock;

constexpr PlanOverrides kSplit{.schedule = Schedule::cooperative,
                               .tile_m = 128,
                               .tile_n = 128,
                               .cluster = ClusterShape{1, 1},
                               .splits = 2,
                               .combine = Combine::separate};

class LaunchOrder : public LaunchTest {
 protected:
  LaunchOrder() : other_(*open_fake_device({.jobs = 2}, 1)) {}

  /// A split product on one of two devices, with its arguments and workspace.
  struct Launcher {
    gemm::Kernel kernel;
    gemm::Args args;
  };
  Launcher launcher(int ordinal) {
    const Device& where = ordinal == 0 ? device() : other_;
    const Result<Plan> plan = gemm::plan(small_problem(), where.info(), kSplit);
    const Result<gemm::Kernel> kernel = gemm::prepare(where, *plan);
    EXPECT_TRUE(kernel.ok());
    gemm::Args args = args_for(small_problem(), ordinal);
    const i64 needed = plan->workspace_bytes;
    args.workspace = {driver.memory(needed, ordinal), needed};
    return {*kernel, args};
  }
  static int failures_of(const Launcher& launcher, int launches) {
    int failures = 0;
    for (int i = 0; i < launches; ++i)
      failures += !gemm::launch(launcher.kernel, launcher.args, nullptr).ok();
    return failures;
  }
  void wait_for_blocked(int count) {
    const auto end = steady_clock::now() + FakeDriver::kMostBlocked;
    while (driver.blocked() < count && steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(driver.blocked(), count);
  }

  const Device other_;
};

/// Four threads make 10,000 launches on two devices. At any time, one device is blocked.
TEST_F(LaunchOrder, those_of_a_device_go_on_while_anothers_block) {
  constexpr int kRounds = 4, kLaunches = 10'000 / (2 * kRounds);  // number of launches per thread and round
  const std::vector<Launcher> launchers{launcher(0), launcher(0), launcher(1), launcher(1)};
  for (int round = 0; round < kRounds; ++round) {
    const int stuck = round % 2;
    driver.block_launches(stuck);
    std::atomic<int> failures = 0;
    std::vector<std::thread> blocked, free;
    for (std::size_t i = 0; i < launchers.size(); ++i)
      if (static_cast<int>(i / 2) == stuck)
        blocked.emplace_back([&, i] { failures += failures_of(launchers[i], kLaunches); });
    wait_for_blocked(2);  // both threads are blocked, each with a workspace of its own
    const int before = driver.launches();
    for (std::size_t i = 0; i < launchers.size(); ++i)
      if (static_cast<int>(i / 2) != stuck)
        free.emplace_back([&, i] { failures += failures_of(launchers[i], kLaunches); });
    for (std::thread& thread : free) thread.join();
    EXPECT_EQ(driver.launches() - before, 2 * 2 * kLaunches)
        << "two kernels each, and none of the stuck device";
    EXPECT_EQ(driver.blocked(), 2);
    EXPECT_TRUE(driver.unblock()) << "a launch waited for another device's";
    for (std::thread& thread : blocked) thread.join();
    EXPECT_EQ(failures, 0);
  }
}

TEST_F(LaunchOrder, others_prepare_open_and_are_lent_workspaces_meanwhile) {
  const Launcher stuck = launcher(0);
  const StreamHandle stream = *StreamHandle::create(other_);
  driver.block_launches(0);
  std::thread blocked([&] { EXPECT_EQ(failures_of(stuck, 1), 0); });
  wait_for_blocked(1);
  Problem another = small_problem();
  another.n += 128;
  EXPECT_TRUE(gemm::prepare(device(), *gemm::plan(another, device().info(), kSplit)).ok());
  EXPECT_TRUE(device().impl().lender.lend(device(), nullptr, 256).ok());
  EXPECT_TRUE(open_fake_device().ok());
  EXPECT_TRUE(Graph::capture(other_, stream.get(), [&] {
                const Result<WorkspaceView> lent = other_.impl().lender.lend(other_, stream.get(), 256);
                return lent ? Result<void>() : lent.error();
              }).ok());
  EXPECT_TRUE(driver.unblock());
  blocked.join();
}

TEST_F(LaunchOrder, what_is_loaded_is_found_while_other_kernels_are_loaded) {
  const Launcher kept = launcher(0);  // keeps its modules loaded
  driver.block_loads(0);
  std::thread blocked([&] {
    EXPECT_TRUE(gemm::prepare(device(), *gemm::plan(small_problem(), device().info(), {.tile_n = 64})).ok());
  });
  wait_for_blocked(1);
  const int modules = driver.alive().modules;
  launcher(0);
  EXPECT_EQ(driver.alive().modules, modules);
  EXPECT_TRUE(driver.unblock()) << "a kernel that is there waited for one that is not";
  blocked.join();
}

TEST_F(LaunchOrder, those_of_one_workspace_wait_for_each_other) {
  const Launcher both = launcher(0);
  driver.block_launches(0);
  std::thread first([&] { EXPECT_EQ(failures_of(both, 1), 0); });
  wait_for_blocked(1);
  std::atomic<bool> done = false;
  std::thread second([&] {
    EXPECT_EQ(failures_of(both, 1), 0);
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(done);
  EXPECT_EQ(driver.blocked(), 1) << "the second waits for its turn, not for the queue";
  EXPECT_TRUE(driver.unblock());
  first.join();
  second.join();
  ASSERT_EQ(driver.launches(), 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(driver.launch(i).dependent, i % 2 == 1) << i;
}

/// Returns nanoseconds per call of `work`: the minimum of a few rounds.
template <class Work>
double cost_of(const Work& work) {
  constexpr int kRepeats = 100'000;
  double best = 1e9;
  for (int round = 0; round < 9; ++round) {
    const auto start = steady_clock::now();
    for (int i = 0; i < kRepeats; ++i) work();
    const std::chrono::duration<double, std::nano> passed = steady_clock::now() - start;
    best = std::min(best, passed.count() / kRepeats);
  }
  return best;
}

/// Compares a turn with locking a mutex twice on the same machine.
TEST_F(LaunchOrder, a_turn_costs_little) {
  int workspace = 0;
  std::mutex mutex;
  const double turn = cost_of([&] { const WorkspaceTurn turn(&workspace); });
  const double pair = cost_of([&] { const std::lock_guard lock(mutex); });
  std::printf("a turn: %.1f ns, a mutex: %.1f ns\n", turn, pair);
  EXPECT_LT(turn, 5 * pair + 20);
}

}  // namespace
}  // namespace sluice
