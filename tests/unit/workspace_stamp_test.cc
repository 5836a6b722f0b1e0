// SPDX-License-Identifier: Apache-2.0
// The owner stamp, with math groups in any order. Consecutive launches are never reported, overlapping
// launches always, and overlapping replays of one captured launch mostly. Also the stamp in a launch's
// parameters. To see it fail: release the word in after_leaving while one group is still inside.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include <sluice/host/jit/source.h>
#include <sluice/spec/part_sums.h>
#include <sluice/spec/workspace_stamp.h>

#include "launch_fixture.h"

namespace sluice {
namespace {

/// The words of device/workspace_stamp.cuh. Each call acts as a compare-and-swap that succeeds.
struct Words {
  WorkspaceStamp at{};
  bool step(const StampStep& next, const LaunchStamp& by) {
    if (next.conflict && at.conflict == 0) at.conflict = stamp_pair(stamp_high(at.owner), by.launch);
    at.owner = next.owner;
    return !next.conflict;
  }
};

/// The groups of one launch. Each group has not entered, is inside, or has left.
struct Launch {
  LaunchStamp stamp;
  std::vector<int> state;  // by group: 0 not entered, 1 inside, 2 left
  std::vector<bool> counted;
  Launch(u32 launch, u32 groups) : stamp{launch, groups}, state(groups, 0), counted(groups, false) {}
  bool done() const {
    for (const int each : state)
      if (each != 2) return false;
    return true;
  }
  /// Moves a random group, which has not left, to its next state.
  void advance(Words& words, std::mt19937& random) {
    std::vector<std::size_t> free;
    for (std::size_t i = 0; i < state.size(); ++i)
      if (state[i] != 2) free.push_back(i);
    const std::size_t group = free[random() % free.size()];
    if (state[group]++ == 0)
      counted[group] = words.step(after_entering(words.at.owner, stamp), stamp);
    else if (counted[group])
      words.step(after_leaving(words.at.owner, stamp), stamp);
  }
};

TEST(WorkspaceStamp, launches_one_after_the_other_leave_no_trace) {
  std::mt19937 random(1);
  Words words;
  for (u32 launch = 1; launch <= 500; ++launch) {
    // Sometimes the number of the launch before, as in a replay.
    Launch one(launch % 7 == 0 ? launch - 1 : launch, 1 + random() % 20);
    while (!one.done()) one.advance(words, random);
    ASSERT_EQ(words.at.owner, 0u) << launch;
    ASSERT_EQ(words.at.conflict, 0u) << launch;
  }
}

TEST(WorkspaceStamp, two_launches_at_one_time_are_always_seen) {
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    Words words;
    Launch one(10, 1 + random() % 6), two(20, 1 + random() % 6);
    one.advance(words, random);
    two.advance(words, random);  // starts before the first one has ended
    while (!one.done() || !two.done()) {
      Launch& next = one.done() || (!two.done() && random() % 2 == 0) ? two : one;
      next.advance(words, random);
    }
    ASSERT_EQ(stamp_high(words.at.conflict), 10u);
    ASSERT_EQ(stamp_low(words.at.conflict), 20u);
  }
}

TEST(WorkspaceStamp, an_early_peer_that_has_left_still_counts) {
  std::mt19937 random(3);
  Words words;
  Launch one(10, 2);
  one.counted[0] = words.step(after_entering(words.at.owner, one.stamp), one.stamp);
  words.step(after_leaving(words.at.owner, one.stamp),
             one.stamp);  // its slot is written, but no group is inside
  Launch two(20, 1);
  two.advance(words, random);
  EXPECT_EQ(words.at.conflict, stamp_pair(10, 20));
}

TEST(WorkspaceStamp, one_captured_launch_twice_at_a_time_is_seen) {
  std::mt19937 random(4);
  Words words;
  Launch one(10, 1), again(10, 1);
  one.advance(words, random);
  again.advance(words, random);
  one.advance(words, random);
  again.advance(words, random);
  EXPECT_EQ(words.at.conflict, stamp_pair(0, 10));
}

/// Returns the fraction of overlapping replays of one captured launch that are detected. `all_inside`: every
/// group enters before the first leaves, as in launches that start at the same time.
double share_seen(u32 groups, bool all_inside, std::mt19937& random) {
  constexpr int kPairs = 1000;
  int seen = 0;
  for (int i = 0; i < kPairs; ++i) {
    Words words;
    Launch one(10, groups), again(10, groups);
    for (Launch* launch : {&one, &again})
      for (u32 group = 0; group < (all_inside ? groups : 0); ++group) {
        launch->state[group] = 1;
        launch->counted[group] = words.step(after_entering(words.at.owner, launch->stamp), launch->stamp);
      }
    if (!all_inside) {
      one.advance(words, random);
      again.advance(words, random);  // starts before the first one has ended
    }
    while (!one.done() || !again.done()) {
      Launch& next = one.done() || (!again.done() && random() % 2 == 0) ? again : one;
      next.advance(words, random);
    }
    seen += words.at.conflict != 0 || words.at.owner != 0;
  }
  return static_cast<double>(seen) / kPairs;
}

/// A group that leaves after the count has reached 0 reports it, unless another group has entered since. All
/// overlaps are detected if every group entered before the first left, and about six in ten in random order.
TEST(WorkspaceStamp, one_captured_launch_of_many_groups_twice_at_a_time_is_seen_most_times) {
  std::mt19937 random(5);
  for (const u32 groups : {2u, 4u, 8u, 32u, 264u}) {
    const double share = share_seen(groups, false, random);
    EXPECT_GT(share, 0.55) << groups;
    EXPECT_LT(share, 0.70) << groups << ": more are seen now; say so in kernel-anatomy.md";
    EXPECT_EQ(share_seen(groups, true, random), 1) << groups;
  }
}

class LaunchStamps : public LaunchTest {
 protected:
  Device stamping_device() {
    Options options = device().options();
    options.stamp_workspaces = true;
    Result<Device> opened = open_fake_device(options);
    EXPECT_TRUE(opened.ok());
    return *opened;
  }
  gemm::Kernel split_kernel(const Device& on, int splits, Combine combine = Combine::last_arriver) {
    const Result<Plan> plan = gemm::plan(small_problem(), on.info(),
                                         {.schedule = Schedule::cooperative,
                                          .tile_m = 128,
                                          .tile_n = 128,
                                          .cluster = ClusterShape{1, 1},
                                          .splits = splits,
                                          .combine = combine});
    EXPECT_TRUE(plan.ok());
    const Result<gemm::Kernel> kernel = gemm::prepare(on, *plan);
    EXPECT_TRUE(kernel.ok()) << (kernel.ok() ? "" : kernel.error().message);
    return *kernel;
  }
  LaunchStamp stamp_of(const gemm::Kernel& kernel) {
    gemm::Args args = args_for(small_problem());
    const i64 bytes = kernel.plan().workspace_bytes;
    if (bytes != 0) args.workspace = {driver.memory(bytes), bytes};
    const int before = driver.launches();
    EXPECT_TRUE(gemm::launch(kernel, args, nullptr).ok());
    return driver.launch(before).params.stamp;
  }
};

TEST_F(LaunchStamps, are_numbered_and_say_how_many_groups_leave) {
  const Device device = stamping_device();
  const gemm::Kernel kernel = split_kernel(device, 2);
  const LaunchStamp first = stamp_of(kernel), second = stamp_of(kernel);
  EXPECT_NE(first.launch, 0u);
  EXPECT_EQ(second.launch, first.launch + 1);
  EXPECT_EQ(first.leavers, 16u * kMathGroups) << "16 CTAs, two math groups each";
}

TEST_F(LaunchStamps, are_left_by_the_second_kernel_too) {
  const LaunchStamp stamp = stamp_of(split_kernel(stamping_device(), 2, Combine::separate));
  EXPECT_EQ(stamp.leavers, 16u * kMathGroups + 8 * 2 * 128 / kSumColumns) << "and each CTA that adds up";
}

TEST_F(LaunchStamps, are_empty_without_the_option_and_without_a_workspace) {
  const LaunchStamp release = stamp_of(split_kernel(device(), 2));
  EXPECT_EQ(release.launch, 0u);
  EXPECT_EQ(release.leavers, 0u);
  const Device device = stamping_device();
  const LaunchStamp whole = stamp_of(split_kernel(device, 1));
  EXPECT_EQ(whole.launch, 0u);
  EXPECT_EQ(whole.leavers, 0u);
}

}  // namespace
}  // namespace sluice
