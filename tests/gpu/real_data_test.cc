// SPDX-License-Identifier: Apache-2.0
// Products of real data must be within the error bounds of docs/numerics.md, for every activation. Another
// test measures the bias of the fp8 accumulator, which data of random sign would hide. On positive data
// promotion keeps it below 1e-3. Without promotion it must be visible, otherwise the measurement is useless.
#include <sluice/kernels/verify_arith.h>

#include "batch_runner.h"
#include "config_pool.h"
#include "gpu.h"
#include "kernel_pool.h"

namespace sluice::testing {
namespace {

constexpr i64 kCases = 600;
constexpr i64 kArenaBytes = i64{4} << 30;

class real_data : public GpuTest {};

TEST_F(real_data, stays_within_the_error_bound) {
  const std::vector<KernelConfig> configs = real_pool();
  const auto pool = KernelPool::prepare(device(), configs);
  ASSERT_TRUE(ok(pool));
  auto runner =
      BatchRunner::create(device(), static_cast<int>(setting("SLUICE_TEST_BATCH", 100)), kArenaBytes);
  ASSERT_TRUE(ok(runner));
  const i64 count = setting("SLUICE_REAL_COUNT", kCases);
  for (i64 index = 0; index < count; ++index) {
    const KernelConfig& config = configs[static_cast<size_t>(index) % configs.size()];
    // Slices of large tiles would need more than the runner's workspace.
    const bool large = index % 8 == 0 && config.combine == Combine::none;
    const CaseLimits limits{.largest = large ? 4096 : 700, .real = true};
    const RandomCase made = random_case(config, device().info(), verify::hash(23, index), limits);
    const auto kernel = gemm::prepare(device(), made.plan);
    ASSERT_TRUE(ok(kernel));
    ASSERT_TRUE(ok(runner->run(*kernel, made.data, Judge::bounded, "case " + std::to_string(index))));
  }
  ASSERT_TRUE(ok(runner->flush()));
  for (const Failure& failure : runner->failures()) ADD_FAILURE() << describe(failure);
  record("cases", runner->passed());
  record("kernels", static_cast<i64>(configs.size()));
  record("elements", runner->elements());
  std::printf(
      "%d problems, %lld elements, at most %.3f of an element's bound, %.3f of all together, %.3f of the "
      "mean\n",
      runner->passed(), runner->elements(), runner->worst_ratio(), runner->norm_ratio(),
      runner->mean_ratio());
}

struct Positive {
  DType input;
  Accumulate accumulate;
};

/// Checks a product of 512 x 512 x k with values in [0.5, 1).
Result<Comparison> positive_product(const Device& device, const Positive& of, i64 k) {
  const Problem problem{.m = 512,
                        .n = 512,
                        .k = k,
                        .a = {.type = of.input},
                        .b = {.type = of.input},
                        .d = {.type = DType::fp32},
                        .accumulate = of.accumulate};
  const auto plan = gemm::plan(problem, device.info());
  if (!plan) return plan.error();
  const auto kernel = gemm::prepare(device, *plan);
  if (!kernel) return kernel.error();
  const auto verifier = Verifier::create(device);
  if (!verifier) return verifier.error();
  const auto data = verifier->make_data(problem, positive_data(problem, 1), nullptr);
  if (!data) return data.error();
  const Result<Workspace> workspace = Workspace::create(device);
  if (!workspace) return workspace.error();
  gemm::Args args = data->args();
  args.workspace = workspace->view();
  if (const Result<void> launched = gemm::launch(*kernel, args, nullptr); !launched) return launched.error();
  return verifier->check(*data, {.judge = Judge::bounded}, nullptr);
}

TEST_F(real_data, promoted_fp8_sums_are_not_biased) {
  for (const i64 k : {1024, 4096, 16'384}) {
    for (const DType input : {DType::e4m3, DType::e5m2}) {
      const auto found = positive_product(device(), {input, Accumulate::promoted}, k);
      ASSERT_TRUE(ok(found));
      EXPECT_TRUE(is_right(*found)) << sluice::describe(*found);
      EXPECT_LT(std::abs(found->mean_error), 1e-3) << name_of(input) << " k " << k;
      std::printf("%s promoted, k %lld: mean error %.2e\n", name_of(input), k, found->mean_error);
    }
  }
}

TEST_F(real_data, fast_fp8_sums_show_their_bias_within_their_bound) {
  const auto found = positive_product(device(), {DType::e4m3, Accumulate::fast}, 16'384);
  ASSERT_TRUE(ok(found));
  EXPECT_TRUE(is_right(*found)) << sluice::describe(*found);
  EXPECT_LT(found->mean_error, -1e-2) << "the measure must see what promotion is for";
  std::printf("e4m3 fast, k 16384: mean error %.2e\n", found->mean_error);
}

/// Each k-step of 16 truncates the sum to 24 bits, towards zero. The error per step is at most 2^-23 of the
/// sum.
TEST_F(real_data, sixteen_bit_sums_lose_no_more_than_a_cut_for_each_step) {
  constexpr double kMostBias = 16'384 / 16 * 0x1p-23;
  for (const DType input : {DType::bf16, DType::fp16}) {
    const auto found = positive_product(device(), {input, Accumulate::fast}, 16'384);
    ASSERT_TRUE(ok(found));
    EXPECT_TRUE(is_right(*found)) << sluice::describe(*found);
    EXPECT_LT(std::abs(found->mean_error), kMostBias) << name_of(input);
    std::printf("%s, k 16384: mean error %.2e\n", name_of(input), found->mean_error);
  }
}

/// Plants wrong results in a long fp8 sum: zero, half, negated, doubled, rows shifted by one. Each must be
/// found. A bound computed from sum |a b| would accept all of them.
TEST_F(real_data, what_is_planted_in_a_long_fast_sum_is_found) {
  const Problem problem{.m = 256,
                        .n = 512,
                        .k = 16'384,
                        .a = {.type = DType::e4m3},
                        .b = {.type = DType::e4m3},
                        .d = {.type = DType::bf16}};
  const auto plan = gemm::plan(problem, device().info());
  ASSERT_TRUE(ok(plan));
  const auto kernel = gemm::prepare(device(), *plan);
  ASSERT_TRUE(ok(kernel));
  const auto verifier = Verifier::create(device());
  ASSERT_TRUE(ok(verifier));
  const Result<Workspace> workspace = Workspace::create(device());
  ASSERT_TRUE(ok(workspace));
  const auto data = verifier->make_data(problem, sluice::real_data(problem, 1), nullptr);
  ASSERT_TRUE(ok(data));
  const auto verdict = [&](float alpha, i64 rows_up) {
    gemm::Args args = data->args();
    args.workspace = workspace->view();
    args.alpha *= alpha;
    Problem shifted = problem;
    shifted.m -= rows_up;
    args.a = static_cast<const u8*>(args.a) + rows_up * problem.k;
    const auto other = gemm::plan(shifted, device().info());
    const auto again = gemm::prepare(device(), *other);
    EXPECT_TRUE(ok(gemm::launch(*again, args, nullptr)));
    return *verifier->check(*data, {.judge = Judge::bounded}, nullptr);
  };
  EXPECT_TRUE(verdict(1, 0).passed()) << sluice::describe(verdict(1, 0));
  for (const float alpha : {0.0f, 0.5f, -1.0f, 2.0f}) EXPECT_GT(verdict(alpha, 0).norm_ratio, 1.5) << alpha;
  EXPECT_TRUE(verdict(1, 0).passed());
  EXPECT_GT(verdict(1, 1).norm_ratio, 1.5) << "rows shifted by one";
}

/// Checks the shapes of the speed comparison in full size, on a sample of elements.
TEST_F(real_data, large_products_are_right_in_a_sample) {
  for (const DType input : {DType::bf16, DType::e4m3}) {
    for (const auto [m, n, k] :
         {std::array<i64, 3>{8192, 8192, 8192}, {4096, 28'672, 4096}, {1024, 1280, 8192}}) {
      const Problem problem{.m = m, .n = n, .k = k, .a = {.type = input}, .b = {.type = input}};
      const auto plan = gemm::plan(problem, device().info());
      ASSERT_TRUE(ok(plan));
      const auto kernel = gemm::prepare(device(), *plan);
      ASSERT_TRUE(ok(kernel));
      const auto verifier = Verifier::create(device());
      ASSERT_TRUE(ok(verifier));
      const auto data = verifier->make_data(problem, exact_data(problem, 3), nullptr);
      ASSERT_TRUE(ok(data));
      ASSERT_TRUE(ok(gemm::launch(*kernel, data->args(), nullptr)));
      const auto found = verifier->check(*data, {.judge = Judge::exact}, nullptr);
      ASSERT_TRUE(ok(found));
      EXPECT_TRUE(is_right(*found)) << short_name(plan->config) << ": " << sluice::describe(*found);
    }
  }
}

}  // namespace
}  // namespace sluice::testing
