// SPDX-License-Identifier: Apache-2.0
// Compares the CPU time of a planned launch, and of a whole chain, with the driver's own launches of an empty
// kernel with the same parameters. Both are measured in turn on one machine. Batches are short enough that
// the launch queue never fills. A launch must not allocate.
#include <time.h>

#include <algorithm>
#include <vector>

#include <sluice/check/verify.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/launch.h>
#include <sluice/run/driver/memory.h>
#include <sluice/spec/params.h>

#include "allocation_counter.h"
#include "bench/chain/data.h"
#include "gpu.h"

namespace sluice::testing {
namespace {

constexpr double kMostAboveBare = 0.6;  // microseconds that a launch may take beyond a bare driver launch
constexpr int kLaunches = 64;           // launches per batch; the driver's queue holds about a thousand
constexpr int kBatches = 200;

/// An empty kernel with the same parameters as a GEMM kernel.
constexpr const char* kEmptyUnit = R"(#include <sluice/spec/params.h>
extern "C" __global__ void sluice_entry(const __grid_constant__ sluice::GemmParams params) {}
)";

constexpr double kMostOfChain = 1.2;  // the time of a chain's launches, of as many bare ones

class host_cost : public GpuTest {};

double cpu_microseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

/// Microseconds per call, by batch. Negative if a call failed.
struct Cost {
  std::vector<double> batches;

  double at(double share) const {
    std::vector<double> sorted = batches;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  }
  double median() const { return at(0.5); }
  double least() const { return at(0); }
};
/// Times batches of calls. Waiting for the GPU is not timed.
template <class Launch>
double batch_of(const StreamHandle& stream, const Launch& launch) {
  const double start = cpu_microseconds();
  for (int i = 0; i < kLaunches; ++i)
    if (!launch()) return -1;
  const double cost = (cpu_microseconds() - start) / kLaunches;
  return stream.synchronize() ? cost : -1;
}

struct Case {
  const char* name;
  Problem problem;
  PlanOverrides overrides;
};

TEST_F(host_cost, of_a_planned_launch_is_small_and_it_allocates_nothing) {
  const PlanOverrides split{.schedule = Schedule::ping_pong,
                            .tile_m = 64,
                            .tile_n = 64,
                            .cluster = ClusterShape{1, 1},
                            .splits = 4,
                            .combine = Combine::last_arriver};
  const auto verifier = Verifier::create(device());
  const auto stream = StreamHandle::create(device());
  const auto workspace = Workspace::create(device());
  const auto nothing = device().impl().load_unit(kEmptyUnit, 0);
  ASSERT_TRUE(ok(verifier) && ok(stream) && ok(workspace) && ok(nothing));
  const Device::Impl& impl = device().impl();
  const ContextScope scope(*impl.primary);  // makes the context current, as PyTorch and the CUDA runtime do
  const GemmParams params{};
  const LaunchShape one_block{.grid_x = 1, .block_x = kThreads};
  const auto bare_launch = [&] {
    return launch_kernel(*impl.api, (*nothing)->function(), one_block, &params, stream->get()).ok();
  };
  for (const auto& [name, problem, overrides] :
       {Case{"a product", {.m = 64, .n = 64, .k = 64}, {}},
        Case{"a split product", {.m = 64, .n = 64, .k = 1024}, split}}) {
    const auto plan = gemm::plan(problem, device().info(), overrides);
    ASSERT_TRUE(ok(plan));
    const auto kernel = gemm::prepare(device(), *plan);
    ASSERT_TRUE(ok(kernel));
    const auto data = verifier->make_data(problem, exact_data(problem, 1), stream->get());
    ASSERT_TRUE(ok(data));
    gemm::Args args = data->args();
    args.workspace = workspace->view();
    ASSERT_TRUE(ok(gemm::launch(*kernel, args, stream->get())));
    const auto found = verifier->check(*data, {}, stream->get());
    ASSERT_TRUE(ok(found));
    ASSERT_TRUE(is_right(*found));

    const long before = allocations_by_this_thread();
    for (int i = 0; i < kLaunches; ++i) ASSERT_TRUE(gemm::launch(*kernel, args, stream->get()).ok());
    EXPECT_EQ(allocations_by_this_thread(), before) << "launch must not allocate";
    ASSERT_TRUE(ok(stream->synchronize()));

    Cost ours, bare;
    for (int batch = 0; batch < kBatches; ++batch) {
      ours.batches.push_back(
          batch_of(*stream, [&] { return gemm::launch(*kernel, args, stream->get()).ok(); }));
      bare.batches.push_back(batch_of(*stream, bare_launch));
    }
    std::printf(
        "planned launch of %s: median %.2f us, least %.2f us; the driver's launch alone: median %.2f us, "
        "least "
        "%.2f us\n",
        name, ours.median(), ours.least(), bare.median(), bare.least());
    ASSERT_GT(ours.least(), 0);
    ASSERT_GT(bare.least(), 0);
    EXPECT_LE(ours.median(), bare.median() + kMostAboveBare) << name;
  }
}

TEST_F(host_cost, of_a_chain_is_that_of_its_launches) {
  const auto lab = bench::open_lab(device(), {.method = {.rounds = 1, .rest_ms = 0, .peer = false}});
  ASSERT_TRUE(ok(lab));
  const bench::LayerSpec spec{
      .model = {"small", 512, 768, 512, 1024}, .tokens = 8, .layers = 12, .passes = 1};
  const auto data = bench::ChainData::create(**lab, spec);
  ASSERT_TRUE(ok(data));
  const auto chain = Chain::prepare(device(), bench::steps_of(spec, data->memory()),
                                    {.overlap = ChainOverlap::weights_first});
  const auto workspace = Workspace::create(device());
  const auto nothing = device().impl().load_unit(kEmptyUnit, 0);
  ASSERT_TRUE(ok(chain) && ok(workspace) && ok(nothing));
  const StreamHandle& stream = (*lab)->stream;
  const Device::Impl& impl = device().impl();
  const ContextScope scope(*impl.primary);
  const GemmParams params{};
  const LaunchShape one_block{.grid_x = 1, .block_x = kThreads, .dependent = true};
  const int launches = chain->kernels();
  const auto bare_launches = [&] {
    for (int i = 0; i < launches; ++i)
      if (!launch_kernel(*impl.api, (*nothing)->function(), one_block, &params, stream.get())) return false;
    return true;
  };
  const auto once = [&](const auto& work) {  // us per launch
    const double start = cpu_microseconds();
    if (!work()) return -1.0;
    const double cost = (cpu_microseconds() - start) / launches;
    return stream.synchronize() ? cost : -1.0;
  };
  const auto enqueued = [&] { return chain->enqueue(stream.get(), workspace->view()).ok(); };
  ASSERT_TRUE(enqueued());
  const long before = allocations_by_this_thread();
  ASSERT_TRUE(enqueued());
  EXPECT_EQ(allocations_by_this_thread(), before) << "a chain must not allocate when it is enqueued";
  ASSERT_TRUE(ok(stream.synchronize()));
  Cost ours, bare;
  for (int batch = 0; batch < kBatches; ++batch) {
    ours.batches.push_back(once(enqueued));
    bare.batches.push_back(once(bare_launches));
  }
  std::printf("a chain of %d launches: median %.2f us per launch; the driver's launches alone: %.2f us\n",
              launches, ours.median(), bare.median());
  ASSERT_GT(ours.least(), 0);
  ASSERT_GT(bare.least(), 0);
  EXPECT_LE(ours.median(), bare.median() * kMostOfChain);
}

}  // namespace
}  // namespace sluice::testing
