// SPDX-License-Identifier: Apache-2.0
// What a planned launch costs the calling thread: CPU time, in batches short enough that the queue never
// fills, and no allocation. Printed beside the driver's own launch of an empty kernel with the same
// parameters, which is the floor.
#include <time.h>

#include <algorithm>
#include <vector>

#include <sluice/host/device_impl.h>
#include <sluice/host/driver/events.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/driver/memory.h>
#include <sluice/host/verify.h>
#include <sluice/spec/params.h>

#include "allocation_counter.h"
#include "gpu.h"

namespace sluice::testing {
namespace {

constexpr double kMostMicroseconds = 3.0;  // the bar
constexpr int kLaunches = 64;              // of one batch; the driver queues about a thousand
constexpr int kBatches = 200;

/// The same parameters, nothing done.
constexpr const char* kEmptyUnit = R"(#include <sluice/spec/params.h>
extern "C" __global__ void sluice_entry(const __grid_constant__ sluice::GemmParams params) {}
)";

class host_cost : public GpuTest {};

double cpu_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

struct Cost {
  double median, least;
};
/// Of one call, in microseconds; waits between batches outside of the time.
template <class Launch>
Cost cost_of(const StreamHandle& stream, const Launch& launch) {
  std::vector<double> costs;
  for (int batch = 0; batch < kBatches; ++batch) {
    const double start = cpu_microseconds();
    for (int i = 0; i < kLaunches; ++i)
      if (!launch()) return {-1, -1};
    costs.push_back((cpu_microseconds() - start) / kLaunches);
    if (!stream.synchronize()) return {-1, -1};
  }
  std::sort(costs.begin(), costs.end());
  return {costs[costs.size() / 2], costs.front()};
}

TEST_F(host_cost, of_a_planned_launch_is_small_and_it_allocates_nothing) {
  const Problem problem{.m = 64, .n = 64, .k = 64};
  const auto plan = gemm::plan(problem, device().info());
  ASSERT_TRUE(ok(plan));
  const auto kernel = gemm::prepare(device(), *plan);
  const auto verifier = Verifier::create(device());
  const auto stream = StreamHandle::create(device());
  ASSERT_TRUE(ok(kernel));
  ASSERT_TRUE(ok(verifier));
  ASSERT_TRUE(ok(stream));
  const auto data = verifier->make_data(problem, exact_data(problem, 1), stream->get());
  ASSERT_TRUE(ok(data));
  const gemm::Args args = data->args();
  ASSERT_TRUE(ok(gemm::launch(*kernel, args, stream->get())));
  const auto found = verifier->check(*data, {}, stream->get());
  ASSERT_TRUE(ok(found));
  ASSERT_TRUE(found->passed());

  const long before = allocations_by_this_thread();
  for (int i = 0; i < kLaunches; ++i) ASSERT_TRUE(gemm::launch(*kernel, args, stream->get()).ok());
  EXPECT_EQ(allocations_by_this_thread(), before) << "launch must not allocate";
  ASSERT_TRUE(ok(stream->synchronize()));

  const Device::Impl& impl = device().impl();
  const auto nothing = device().impl().load_unit(kEmptyUnit, 0);
  ASSERT_TRUE(ok(nothing));
  const ContextScope scope(*impl.primary);  // current, as PyTorch and the CUDA runtime have it
  const Cost ours = cost_of(*stream, [&] { return gemm::launch(*kernel, args, stream->get()).ok(); });
  const GemmParams params{};
  const LaunchShape one_block{.grid_x = 1, .block_x = kThreads};
  const Cost bare = cost_of(*stream, [&] {
    return launch_kernel(*impl.api, (*nothing)->function(), one_block, &params, stream->get()).ok();
  });
  std::printf(
      "planned launch: median %.2f us, least %.2f us; the driver's launch alone: median %.2f us, least %.2f "
      "us\n",
      ours.median, ours.least, bare.median, bare.least);
  ASSERT_GT(ours.median, 0);
  EXPECT_LE(ours.median, kMostMicroseconds);
}

}  // namespace
}  // namespace sluice::testing
