// SPDX-License-Identifier: Apache-2.0
// A launch may not allocate, call the driver more than necessary, break a capture, or depend on other
// threads. If a driver call fails in it, it returns an error and leaves nothing behind. To see it fail: make
// a std::string in launch() before the checks, or take `params` by reference from the kernel instead of
// copying it.
#include <atomic>
#include <thread>
#include <vector>

#include <sluice/run/device/device_impl.h>

#include "allocation_counter.h"
#include "launch_fixture.h"

namespace sluice {
namespace {

using LaunchCost = LaunchTest;

TEST_F(LaunchCost, the_counter_counts) {
  const long before = allocations_of_this_thread();
  const auto number = std::make_unique<int>(3);
  EXPECT_EQ(allocations_of_this_thread(), before + 1) << *number;
}

TEST_F(LaunchCost, a_launch_allocates_nothing) {
  const gemm::Kernel kernel = prepared(full_problem());
  const gemm::Args args = args_for(full_problem());
  const gemm::Kernel empty = prepared({.m = 0, .n = 8, .k = 8});
  ASSERT_TRUE(gemm::run(device(), full_problem(), args, nullptr).ok());
  for (const int current : {-1, 0}) {
    driver.make_current(current);
    const long before = allocations_of_this_thread();
    const bool ok = gemm::launch(kernel, args, nullptr).ok() && gemm::launch(empty, {}, nullptr).ok() &&
                    gemm::run(device(), full_problem(), args, nullptr).ok();
    EXPECT_EQ(allocations_of_this_thread(), before) << "current context " << current;
    EXPECT_TRUE(ok);
  }
}

TEST_F(LaunchCost, asks_the_driver_for_no_more_than_this) {
  const gemm::Kernel kernel = prepared(small_problem());
  const gemm::Args args = args_for(small_problem());
  driver.make_current(0);
  driver.fail_nothing();
  launched(gemm::launch(kernel, args, nullptr), 1);
  // 2 queries of the context, 3 of pointers, 3 of address ranges, 1 launch. More calls would exceed the limit
  // of 3 us.
  EXPECT_EQ(driver.calls(), 9);
  driver.fail_nothing();
  launched(gemm::launch(kernel, args, nullptr), 2);
  EXPECT_EQ(driver.calls(), 6) << "pointers that were seen to be good are not asked for again";
}

/// Each pointer may be in one of several places of the table. With one place each, two operands could
/// displace each other and be queried again in every launch.
TEST_F(LaunchCost, pointers_that_were_seen_do_not_drive_each_other_out) {
  const PrimaryContext& primary = *device().impl().primary;
  const auto pointer = [](u64 i) { return reinterpret_cast<const void*>((i + 1) << 21); };
  for (u64 i = 0; i < 64; ++i) primary.remember_memory(pointer(i));
  for (u64 i = 0; i < 64; ++i) EXPECT_TRUE(primary.is_known_memory(pointer(i))) << i;
  EXPECT_FALSE(primary.is_known_memory(pointer(64)));
  for (u64 i = 64; i < 100'000; ++i) primary.remember_memory(pointer(i));
  EXPECT_FALSE(primary.is_known_memory(pointer(0))) << "the latest stay";
  EXPECT_TRUE(primary.is_known_memory(pointer(99'999)));
}

/// A launch does not notice that memory was freed, as the docs say. It would have to query each pointer
/// again.
TEST_F(LaunchCost, memory_that_changed_hands_is_noticed_when_its_pointer_is_asked_for_again) {
  const gemm::Kernel kernel = prepared(small_problem());
  const gemm::Args args = args_for(small_problem());
  launched(gemm::launch(kernel, args, nullptr), 1);
  driver.give_memory_to(args.d, 1, CU_MEMORYTYPE_DEVICE);
  EXPECT_TRUE(gemm::launch(kernel, args, nullptr).ok()) << "it was this device's when it was seen";
  const PrimaryContext& primary = *device().impl().primary;
  for (u64 i = 1; i < 100'000; ++i) primary.remember_memory(reinterpret_cast<const void*>(i << 21));
  Result<void> result = gemm::launch(kernel, args, nullptr);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::wrong_device) << result.error().message;
  driver.give_memory_to(args.d, 0, CU_MEMORYTYPE_HOST);
  result = gemm::launch(kernel, args, nullptr);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::invalid_pointer) << result.error().message;
}

TEST_F(LaunchCost, rows_that_do_not_end_with_a_tile_cost_an_address_each) {
  const Problem ragged{.m = 210, .n = 504, .k = 128};
  const gemm::Kernel kernel = prepared(ragged, {.schedule = Schedule::ping_pong, .tile_m = 64, .tile_n = 64});
  const gemm::Args args = args_for(ragged);
  driver.make_current(0);
  launched(gemm::launch(kernel, args, nullptr), 1);
  driver.fail_nothing();
  launched(gemm::launch(kernel, args, nullptr), 2);
  EXPECT_EQ(driver.calls(), 6 + 2);
  const GemmParams& params = driver.launch(1).params;
  EXPECT_EQ(decode(params.map_a_tail).address, reinterpret_cast<u64>(args.a));
  EXPECT_EQ(decode(params.map_b_tail).address, reinterpret_cast<u64>(args.b));
  EXPECT_EQ(decode(params.map_a).box_outer, 64);
  EXPECT_EQ(decode(params.map_a_tail).box_outer, 24);  // 210 = 3 * 64 + 18, rounded up to a multiple of eight
  EXPECT_EQ(decode(params.map_b_tail).box_outer, 56);  // 504 = 7 * 64 + 56
}

TEST_F(LaunchCost, every_failing_call_is_an_error_and_launches_nothing) {
  const gemm::Kernel kernel = prepared(full_problem());
  const gemm::Args args = args_for(full_problem());
  const Alive before = driver.alive();
  driver.fail_function("cuPointerGetAttributes", CUDA_ERROR_UNKNOWN);  // the first pointer query fails
  refused(gemm::launch(kernel, args, nullptr), ErrorCode::driver, "cuPointerGetAttributes");
  EXPECT_EQ(driver.launches(), 0);
  driver.fail_nothing();
  launched(gemm::launch(kernel, args, nullptr), 1);
  driver.fail_nothing();
  launched(gemm::launch(kernel, args, nullptr), 2);
  const int calls = driver.calls() - 1;  // the last call pops the context, after the launch
  for (int call = 0; call < calls; ++call) {
    driver.fail_call(call, CUDA_ERROR_UNKNOWN);
    const Result<void> result = gemm::launch(kernel, args, nullptr);
    ASSERT_FALSE(result.ok()) << driver.last_failed();
    EXPECT_EQ(result.error().code, ErrorCode::driver);
    EXPECT_NE(result.error().message.find("CUDA_ERROR_FAKE, made up"), std::string::npos);
    EXPECT_EQ(driver.launches(), 2) << driver.last_failed();
    EXPECT_EQ(driver.alive(), before) << driver.last_failed();
  }
}

TEST_F(LaunchCost, a_launch_error_names_shape_and_cause) {
  const gemm::Kernel kernel = prepared(small_problem());
  driver.fail_function("cuLaunchKernelEx", CUDA_ERROR_LAUNCH_FAILED);
  const Result<void> result = gemm::launch(kernel, args_for(small_problem()), nullptr);
  refused(result, ErrorCode::driver, "cuLaunchKernelEx (grid ");
  refused(result, ErrorCode::driver, "only a new process recovers");
}

TEST_F(LaunchCost, may_be_captured_and_replayed) {
  const gemm::Kernel kernel = prepared(full_problem());
  const gemm::Args args = args_for(full_problem());
  ASSERT_TRUE(gemm::run(device(), full_problem(), args, nullptr).ok());
  const StreamHandle stream = *StreamHandle::create(device());
  const Result<Graph> graph = Graph::capture(device(), stream.get(), [&] {
    Result<void> first = gemm::launch(kernel, args, stream.get());
    return first ? gemm::run(device(), full_problem(), args, stream.get()) : first;
  });
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(driver.launches(), 3);
  EXPECT_TRUE(driver.launch(1).captured && driver.launch(2).captured);
  EXPECT_TRUE(graph->launch(stream.get()).ok());
}

TEST_F(LaunchCost, threads_launch_one_kernel_with_their_own_arguments) {
  constexpr int kLaunchThreads = 4, kLaunchesEach = 400;
  const gemm::Kernel kernel = prepared(full_problem());
  std::vector<gemm::Args> args;
  for (int i = 0; i < kLaunchThreads; ++i) {
    args.push_back(args_for(full_problem()));
    args.back().alpha = static_cast<float>(i + 1);
  }
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kLaunchThreads; ++i)
    threads.emplace_back([&, i] {
      for (int launch = 0; launch < kLaunchesEach; ++launch)
        failures += !gemm::launch(kernel, args[i], nullptr).ok();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(driver.launches(), kLaunchThreads * kLaunchesEach);
  for (int i = 0; i < FakeDriver::kKeptLaunches; ++i) {
    const GemmParams& params = driver.launch(i).params;
    const gemm::Args& own = args[static_cast<std::size_t>(params.alpha) - 1];
    EXPECT_EQ(params.d, own.d);
    EXPECT_EQ(decode(params.map_a).address, reinterpret_cast<u64>(own.a));
    EXPECT_EQ(decode(params.map_d).address, reinterpret_cast<u64>(own.d));
  }
}

}  // namespace
}  // namespace sluice
