// SPDX-License-Identifier: Apache-2.0
// A split product and its workspace: which calls are refused and with which remedy, and that a product takes
// exactly one launch even if run() lends the memory. To see it fail: remove kWorkspace from check_values, or
// zero the workspace in launch.
#include <algorithm>
#include <cctype>
#include <thread>
#include <vector>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/device/workspace_lender.h>
#include <sluice/spec/params.h>
#include <sluice/spec/part_sums.h>

#include "launch_fixture.h"

namespace sluice {
namespace {

class LaunchWorkspace : public LaunchTest {
 protected:
  gemm::Kernel split_kernel() {
    return prepared(small_problem(), {.schedule = Schedule::cooperative,
                                      .tile_m = 128,
                                      .tile_n = 128,
                                      .cluster = ClusterShape{1, 1},
                                      .splits = 2,
                                      .combine = Combine::last_arriver});
  }
  gemm::Args args_with(void* workspace, i64 bytes) {
    gemm::Args args = args_for(small_problem());
    args.workspace = {workspace, bytes};
    return args;
  }
};

TEST_F(LaunchWorkspace, is_asked_for_exactly) {
  const gemm::Kernel kernel = split_kernel();
  EXPECT_EQ(kernel.plan().config.combine, Combine::last_arriver);
  EXPECT_EQ(kernel.plan().split.slices, 2);
  EXPECT_EQ(kernel.plan().split.clusters, 16);
  const i64 needed = kernel.plan().workspace_bytes;
  EXPECT_EQ(needed, kWorkspaceCounterBytes + i64{16} * 128 * 128 * 4);
  refused(gemm::launch(kernel, args_for(small_problem()), nullptr), ErrorCode::invalid_pointer,
          "the workspace is null");
  void* memory = driver.memory(needed + 256);
  refused(gemm::launch(kernel, args_with(memory, needed - 1), nullptr), ErrorCode::workspace,
          std::to_string(needed));
  refused(gemm::launch(kernel, args_with(shifted(memory, 64), needed), nullptr), ErrorCode::misaligned,
          "128 bytes");
  launched(gemm::launch(kernel, args_with(memory, needed), nullptr), 1);
}

TEST_F(LaunchWorkspace, may_not_lie_over_an_operand) {
  const gemm::Kernel kernel = split_kernel();
  gemm::Args args = args_with(nullptr, kernel.plan().workspace_bytes);
  for (void* operand : {const_cast<void*>(args.a), const_cast<void*>(args.b), args.d}) {
    args.workspace.data = operand;
    refused(gemm::launch(kernel, args, nullptr), ErrorCode::aliasing, "the workspace");
  }
}

TEST_F(LaunchWorkspace, is_not_touched_where_nothing_is_multiplied) {
  const gemm::Kernel kernel = split_kernel();
  gemm::Args args = args_for(small_problem());
  args.alpha = 0.0f;
  launched(gemm::launch(kernel, args, nullptr), 1);
}

TEST_F(LaunchWorkspace, is_one_launch_and_no_memset) {
  const gemm::Kernel kernel = split_kernel();
  const gemm::Args args =
      args_with(driver.memory(kernel.plan().workspace_bytes), kernel.plan().workspace_bytes);
  ASSERT_TRUE(gemm::launch(kernel, args, nullptr).ok());  // makes the memory known
  const int before = driver.calls();
  launched(gemm::launch(kernel, args, nullptr), 2);
  EXPECT_LE(driver.calls() - before, 8) << "context, three addresses, the launch, and nothing like a memset";
}

TEST_F(LaunchWorkspace, is_read_by_a_second_kernel_if_the_parts_are_added_up_there) {
  PlanOverrides overrides{.schedule = Schedule::cooperative,
                          .tile_m = 128,
                          .tile_n = 128,
                          .cluster = ClusterShape{1, 1},
                          .splits = 2,
                          .combine = Combine::separate};
  const gemm::Kernel kernel = prepared(small_problem(), overrides);
  EXPECT_EQ(kernel.plan().workspace_bytes, kWorkspaceCounterBytes + i64{16} * 128 * 128 * 4);
  std::string text = describe(kernel.plan());  // its lines are wrapped
  text.erase(std::unique(text.begin(), text.end(),
                         [](char a, char b) { return std::isspace(a) && std::isspace(b); }),
             text.end());
  std::replace(text.begin(), text.end(), '\n', ' ');
  EXPECT_NE(text.find("a second kernel adds up the parts"), std::string::npos) << text;
  gemm::Args args = args_with(driver.memory(kernel.plan().workspace_bytes), kernel.plan().workspace_bytes);
  launched(gemm::launch(kernel, args, nullptr), 2);
  const LaunchRecord first = driver.launch(0), second = driver.launch(1);
  EXPECT_FALSE(first.dependent);
  EXPECT_TRUE(second.dependent) << "it waits itself";
  EXPECT_EQ(second.block_x, static_cast<u32>(kMostSumThreads));
  // 8 tiles of 2 groups, each with one wave of 64 rows; a CTA adds 8 columns.
  EXPECT_EQ(second.grid_x, 8u * 2 * 1 * (128 / 8));
  Problem larger = small_problem();
  larger.n += 128;  // 10 tiles or more get smaller CTAs, so that all CTAs are resident at once
  const gemm::Kernel many = prepared(larger, overrides);
  EXPECT_GT(many.impl().image.sum_shape.grid_x, 264u);
  EXPECT_EQ(many.impl().image.sum_shape.block_x, 256u);
  EXPECT_EQ(second.params.partials, first.params.partials);
  args.alpha = 0.0f;  // no partial sums: the first kernel stores D
  launched(gemm::launch(kernel, args, nullptr), 3);
}

/// Two threads use the same stream and workspace. No other launch may come between the two kernels of a
/// product.
TEST_F(LaunchWorkspace, two_kernels_of_a_product_follow_each_other_whoever_else_launches) {
  const gemm::Kernel kernel = prepared(small_problem(), {.schedule = Schedule::cooperative,
                                                         .tile_m = 128,
                                                         .tile_n = 128,
                                                         .cluster = ClusterShape{1, 1},
                                                         .splits = 2,
                                                         .combine = Combine::separate});
  const i64 needed = kernel.plan().workspace_bytes;
  const gemm::Args args = args_with(driver.memory(needed), needed);
  constexpr int kLaunchesEach = FakeDriver::kKeptLaunches / 8;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < kLaunchesEach; ++n) EXPECT_TRUE(gemm::launch(kernel, args, nullptr).ok());
    });
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(driver.launches(), 8 * kLaunchesEach);
  for (int i = 0; i < driver.launches(); i += 2) {
    EXPECT_FALSE(driver.launch(i).dependent);
    EXPECT_TRUE(driver.launch(i + 1).dependent) << "launch " << i;
  }
}

TEST_F(LaunchWorkspace, combine_add_is_for_sums_in_any_order) {
  const Result<Plan> plan =
      gemm::plan(small_problem(), device().info(), {.splits = 2, .combine = Combine::add});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("needs update = add"), std::string::npos);
}

TEST_F(LaunchWorkspace, combine_none_cannot_split) {
  const Result<Plan> plan =
      gemm::plan(small_problem(), device().info(), {.splits = 2, .combine = Combine::none});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("set last_arriver, separate or add"), std::string::npos);
}

/// Returns 128 x 128 x 16384: few tiles and a large k, so the planner splits it.
Problem long_problem() {
  return {.m = 128, .n = 128, .k = 65536};
}

TEST_F(LaunchWorkspace, run_lends_one_for_each_stream) {
  const Result<Plan> plan = gemm::plan(long_problem(), device().info());
  ASSERT_TRUE(plan.ok());
  ASSERT_GT(plan->workspace_bytes, 0) << describe(*plan);
  const gemm::Args args = args_for(long_problem());
  const Result<StreamHandle> one = StreamHandle::create(device()), two = StreamHandle::create(device());
  ASSERT_TRUE(one.ok() && two.ok());
  const int before = driver.alive().allocations;
  const int kernels = plan->config.combine == Combine::separate ? 2 : 1;
  launched(gemm::run(device(), long_problem(), args, one->get()), kernels);
  EXPECT_EQ(driver.alive().allocations, before + 1);
  launched(gemm::run(device(), long_problem(), args, one->get()), 2 * kernels);
  EXPECT_EQ(driver.alive().allocations, before + 1);
  launched(gemm::run(device(), long_problem(), args, two->get()), 3 * kernels);
  EXPECT_EQ(driver.alive().allocations, before + 2);
}

TEST_F(LaunchWorkspace, run_asks_the_driver_for_a_capture_and_a_stream_before_it_lends) {
  ASSERT_TRUE(gemm::run(device(), long_problem(), args_for(long_problem()), nullptr).ok());
  gemm::Args args = args_for(long_problem());
  driver.make_current(0);
  ASSERT_TRUE(gemm::run(device(), long_problem(), args, nullptr).ok());
  driver.fail_nothing();
  ASSERT_TRUE(gemm::run(device(), long_problem(), args, nullptr).ok());
  const int lent = driver.calls();
  args.workspace = device().impl().lender.all_lent().front().view();
  driver.fail_nothing();
  ASSERT_TRUE(gemm::run(device(), long_problem(), args, nullptr).ok());
  EXPECT_EQ(lent - driver.calls(), 4) << "a call for each, and the context's before it";
}

/// A destroyed stream keeps its workspace, because its last launch may still run. To see it fail: let the
/// fake driver use a stream's handle as its id, which the next stream then gets too.
TEST_F(LaunchWorkspace, run_lends_to_streams_until_they_have_so_much_however_few_are_alive) {
  const i64 bytes = kWorkspaceCounterBytes + (i64{1} << 20);
  WorkspaceLender lender(3 * bytes);
  for (int i = 0; i < 3; ++i) {
    const Result<StreamHandle> stream = StreamHandle::create(device());
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE(lender.lend(device(), stream->get(), 256).ok()) << i;
  }
  EXPECT_EQ(lender.holdings().lent, 3);
  EXPECT_EQ(lender.holdings().bytes, 3 * bytes);
  const Result<StreamHandle> late = StreamHandle::create(device());
  const Result<WorkspaceView> none = lender.lend(device(), late->get(), 256);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::workspace);
  EXPECT_NE(none.error().message.find("were lent 3342336 bytes of workspace"), std::string::npos)
      << none.error().message;
  EXPECT_NE(none.error().message.find("use them again"), std::string::npos) << none.error().message;
}

TEST_F(LaunchWorkspace, run_lends_a_stream_what_it_needs_and_more_when_it_needs_more) {
  WorkspaceLender lender;
  const Result<StreamHandle> stream = StreamHandle::create(device());
  const WorkspaceView small = *lender.lend(device(), stream->get(), kWorkspaceCounterBytes);
  EXPECT_EQ(small.bytes, kWorkspaceCounterBytes + (i64{1} << 20)) << "not 64 MB for a quantiser's counters";
  const WorkspaceView large = *lender.lend(device(), stream->get(), kWorkspaceLimit);
  EXPECT_EQ(large.bytes, kWorkspaceLimit);
  EXPECT_NE(small.data, large.data);
  EXPECT_EQ(lender.lend(device(), stream->get(), 256)->data, large.data);
  EXPECT_EQ(lender.holdings().lent, 1);
  EXPECT_EQ(lender.holdings().bytes, small.bytes + large.bytes) << "work may be on its way in the first";
}

TEST_F(LaunchWorkspace, run_lends_none_where_nothing_is_multiplied) {
  gemm::Args args = args_for(long_problem());
  args.alpha = 0.0f;
  const int before = driver.alive().allocations;
  launched(gemm::run(device(), long_problem(), args, nullptr), 1);
  EXPECT_EQ(driver.alive().allocations, before);
}

TEST_F(LaunchWorkspace, run_takes_only_an_error_of_a_capture_for_a_capture) {
  const auto run = [&] { return gemm::run(device(), long_problem(), args_for(long_problem()), nullptr); };
  driver.fail_function("cuStreamIsCapturing", CUDA_ERROR_INVALID_HANDLE);
  refused(run(), ErrorCode::driver, "cuStreamIsCapturing");
  driver.fail_function("cuStreamIsCapturing", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  refused(run(), ErrorCode::not_prepared, "capturing");
  driver.fail_nothing();
  EXPECT_TRUE(run().ok());
  for (const CUresult code : {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT}) {
    driver.fail_function("cuStreamGetCaptureInfo", code);
    const Result<void> unasked = run();  // before a workspace is lent
    ASSERT_FALSE(unasked.ok());
    EXPECT_EQ(unasked.error().code, ErrorCode::driver) << unasked.error().message;
  }
}

TEST_F(LaunchWorkspace, of_a_plan_made_by_hand_is_worked_out) {
  Plan plan = split_kernel().plan();
  const i64 needed = plan.workspace_bytes;
  plan.workspace_bytes = plan.smem_bytes = 0;
  const Result<gemm::Kernel> kernel = gemm::prepare(device(), plan);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ(kernel->plan().workspace_bytes, needed);
  plan.split.slices = 3;
  const Result<gemm::Kernel> wrong = gemm::prepare(device(), plan);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("split.slices = 3 must be in 1..2"), std::string::npos)
      << wrong.error().message;
}

}  // namespace
}  // namespace sluice
