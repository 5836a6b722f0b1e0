// SPDX-License-Identifier: Apache-2.0
// Launches that are captured into a graph and replayed with changing inputs at the same addresses. Also many
// threads, each with its own stream, that launch shared kernels.
#include <thread>

#include <sluice/check/verify.h>
#include <sluice/kernels/verify_arith.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>

#include "batch_runner.h"
#include "config_pool.h"
#include "gpu.h"
#include "kernel_pool.h"

namespace sluice::testing {
namespace {

class graphs : public GpuTest {};
class threads : public GpuTest {};

TEST_F(graphs, replay_with_changed_inputs) {
  const auto stream = StreamHandle::create(device());
  const auto verifier = Verifier::create(device());
  ASSERT_TRUE(ok(stream));
  ASSERT_TRUE(ok(verifier));
  const auto workspace = Workspace::create(device());
  ASSERT_TRUE(ok(workspace));
  ASSERT_TRUE(ok(class_kernels(device())));
  for (const KernelConfig& config : class_pool()) {
    const Problem problem = problem_for(config, 200, 136, 300);
    const auto kernel = gemm::prepare(device(), plan_for(problem, config, device().info()));
    ASSERT_TRUE(ok(kernel));
    auto data = verifier->make_data(problem, exact_data(problem, 1), stream->get());
    ASSERT_TRUE(ok(data));
    gemm::Args args = data->args();
    args.workspace = workspace->view();
    const auto graph =
        Graph::capture(device(), stream->get(), [&] { return gemm::launch(*kernel, args, stream->get()); });
    ASSERT_TRUE(ok(graph));
    for (u64 seed = 2; seed < 12; ++seed) {
      ASSERT_TRUE(ok(verifier->refill(*data, seed, stream->get())));
      ASSERT_TRUE(ok(graph->launch(stream->get())));
      const auto found = verifier->check(*data, {}, stream->get());
      ASSERT_TRUE(ok(found));
      ASSERT_TRUE(is_right(*found)) << short_name(config) << " replay " << seed << ": " << describe(*found);
    }
  }
}

TEST_F(graphs, keep_their_arguments_when_the_kernel_object_is_gone) {
  const Problem problem{.m = 512, .n = 512, .k = 512};
  const auto stream = StreamHandle::create(device());
  const auto verifier = Verifier::create(device());
  ASSERT_TRUE(ok(stream));
  ASSERT_TRUE(ok(verifier));
  auto data = verifier->make_data(problem, exact_data(problem, 1), stream->get());
  ASSERT_TRUE(ok(data));
  // The device keeps the module loaded.
  ASSERT_TRUE(ok(gemm::run(device(), problem, data->args(), stream->get())));
  const auto graph = Graph::capture(
      device(), stream->get(), [&] { return gemm::run(device(), problem, data->args(), stream->get()); });
  ASSERT_TRUE(ok(graph));
  ASSERT_TRUE(ok(verifier->refill(*data, 9, stream->get())));
  ASSERT_TRUE(ok(graph->launch(stream->get())));
  const auto found = verifier->check(*data, {}, stream->get());
  ASSERT_TRUE(ok(found));
  EXPECT_TRUE(is_right(*found)) << describe(*found);
}

constexpr int kThreadCount = 8;
constexpr int kCasesPerThread = 200;

/// Runs cases in a thread. Returns its failures as text, because only one thread may call gtest.
std::string run_cases(const Device& device, int thread, const std::vector<KernelConfig>& configs) {
  auto runner = BatchRunner::create(device, 50, i64{128} << 20);
  if (!runner) return runner.error().message;
  for (int i = 0; i < kCasesPerThread; ++i) {
    const u64 seed = verify::hash(31, static_cast<u64>(thread * kCasesPerThread + i));
    const RandomCase made = random_case(configs[seed % configs.size()], device.info(), seed, {});
    const auto kernel = gemm::prepare(device, made.plan);
    if (!kernel) return kernel.error().message;
    if (const Result<void> ran = runner->run(*kernel, made.data, Judge::exact, "thread case"); !ran)
      return ran.error().message;
  }
  if (const Result<void> flushed = runner->flush(); !flushed) return flushed.error().message;
  return runner->failures().empty() ? "" : describe(runner->failures().front());
}

TEST_F(threads, may_prepare_and_launch_at_once) {
  const std::vector<KernelConfig> configs = class_pool();
  std::vector<std::string> found(kThreadCount);
  std::vector<std::thread> running;
  for (int t = 0; t < kThreadCount; ++t)
    running.emplace_back([&, t] { found[static_cast<size_t>(t)] = run_cases(device(), t, configs); });
  for (std::thread& thread : running) thread.join();
  for (const std::string& why : found) EXPECT_EQ(why, "");
}

}  // namespace
}  // namespace sluice::testing
