// SPDX-License-Identifier: Apache-2.0
// Results must have equal bits on every run: 100 launches of each class of kernel, and of the planner's pick
// for a large product. Real data would show another order of summation.
#include <cstring>

#include <sluice/check/verify.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/memory.h>

#include "config_pool.h"
#include "gpu.h"
#include "kernel_pool.h"
#include "random_case.h"

namespace sluice::testing {
namespace {

constexpr int kRuns = 100;

class repeatability : public GpuTest {
 protected:
  void expect_same_bits(const Plan& plan) {
    const auto kernel = gemm::prepare(device(), plan);
    ASSERT_TRUE(ok(kernel));
    const auto verifier = Verifier::create(device());
    ASSERT_TRUE(ok(verifier));
    const auto workspace = Workspace::create(device());
    ASSERT_TRUE(ok(workspace));
    const i64 bytes = data_bytes(plan.problem, {});
    auto memory = DeviceBuffer::allocate(device(), bytes);
    ASSERT_TRUE(ok(memory));
    const auto arena = std::make_shared<const DeviceBuffer>(std::move(*memory));
    auto data = verifier->make_data(plan.problem, real_data(plan.problem, 5), arena, nullptr);
    ASSERT_TRUE(ok(data));
    std::vector<char> first(static_cast<size_t>(bytes)), now(static_cast<size_t>(bytes));
    for (int run = 0; run < kRuns; ++run) {
      ASSERT_TRUE(ok(verifier->refill(*data, 5, nullptr)));  // also restores D
      gemm::Args args = data->args();
      args.workspace = workspace->view();
      ASSERT_TRUE(ok(gemm::launch(*kernel, args, nullptr)));
      ASSERT_TRUE(ok(synchronize(device())));
      ASSERT_TRUE(ok(arena->download(run == 0 ? first.data() : now.data(), bytes)));
      if (run > 0) {
        ASSERT_EQ(std::memcmp(first.data(), now.data(), first.size()), 0)
            << "run " << run << " differs: " << short_name(plan.config);
      }
    }
  }
};

TEST_F(repeatability, holds_for_every_class_of_kernel) {
  ASSERT_TRUE(ok(class_kernels(device())));
  for (const KernelConfig& config : class_pool())
    if (config.combine != Combine::add)  // Combine::add does not promise equal bits
      expect_same_bits(plan_for(problem_for(config, 300, 200, 700), config, device().info()));
  record("cases", kRuns * static_cast<i64>(class_pool().size()));
  record("kernels", static_cast<i64>(class_pool().size()));
}

TEST_F(repeatability, holds_for_a_product_that_fills_the_gpu) {
  for (const DType input : {DType::bf16, DType::e4m3}) {
    const Problem problem{.m = 2048, .n = 2304, .k = 1024, .a = {.type = input}, .b = {.type = input}};
    const auto plan = gemm::plan(problem, device().info());
    ASSERT_TRUE(ok(plan));
    expect_same_bits(*plan);
  }
}

}  // namespace
}  // namespace sluice::testing
