// SPDX-License-Identifier: Apache-2.0
// The check of packed products on inexact data. An emulation of each kernel's arithmetic uses less than half
// of every bound, and an error of a tenth fails. SLUICE_JUDGE_SEEDS: number of data sets per problem (default
// 1). To see it fail: leave a rounding out of weight_rounding(), or norm_ratio out of Comparison::passed().
#include <sluice/check/packed_data.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include <sluice/check/packed_check.h>
#include <sluice/plan/packed/packed_problem_checks.h>

#include "bench/shapes.h"
#include "emulated_products.h"
#include "packed_formats.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

using packed::DataKind;
using packed::WeightRounding;
using test::EmulatedProduct;
using test::Flaw;

u64 seeds() {
  const char* text = std::getenv("SLUICE_JUDGE_SEEDS");
  return text == nullptr ? 1 : static_cast<u64>(std::atoll(text));
}

struct Kernel {
  DType x;
  WeightRounding rounding;
  const char* name;
};
constexpr Kernel kKernels[] = {{DType::fp16, WeightRounding::none, "narrow, fp16"},
                               {DType::bf16, WeightRounding::none, "narrow, bf16"},
                               {DType::fp16, WeightRounding::to_tokens, "wide, fp16"},
                               {DType::bf16, WeightRounding::to_tokens, "wide, bf16"},
                               {DType::e4m3, WeightRounding::none, "strip, e4m3"}};

PackedProblem problem_of(const Kernel& kernel, WeightFormat format, i64 m, i64 n, i64 k) {
  format.order = kernel.x == DType::e4m3 ? FragmentOrder::byte : FragmentOrder::half;
  return {.m = m,
          .n = n,
          .k = k,
          .x = kernel.x,
          .d = DType::fp32,
          .weights = format,
          .ld_x = ceil_div(k, i64{16}) * 16};
}
bool takes(const Kernel& kernel, const WeightFormat& format) {
  return (kernel.x == DType::e4m3) == (format.order == FragmentOrder::byte);
}

/// Largest errors relative to their bounds.
struct Shares {
  double worst = 0, norm = 0, mean = 0;
  void take(const Comparison& found) {
    worst = std::max(worst, found.worst_ratio);
    norm = std::max(norm, found.norm_ratio);
    mean = std::max(mean, found.mean_ratio);
  }
  void print(const char* what) const {
    std::printf("%s: of one element's bound %.3f, of all together %.3f, of the mean %.3f\n", what, worst,
                norm, mean);
  }
};

TEST(packed_judge, emulated_kernels_use_less_than_half_of_every_bound) {
  for (const Kernel& kernel : kKernels) {
    Shares shares;
    for (const WeightFormat& format : test::all_formats())
      for (const DataKind kind : {DataKind::real, DataKind::positive})
        for (u64 seed = 1; seed <= seeds() && takes(kernel, format); ++seed) {
          const auto data = packed::random_data(problem_of(kernel, format, 2, 40, 512), kind, seed);
          ASSERT_TRUE(data.ok()) << data.error().message;
          const auto sums = packed::reference_sums(*data);
          const auto found =
              packed::judge(*data, sums, EmulatedProduct(*data, kernel.rounding).d(), 0, kernel.rounding);
          EXPECT_TRUE(found.passed()) << to_string(data->problem) << describe(found);
          shares.take(found);
        }
    shares.print(kernel.name);
    EXPECT_LT(shares.worst, 0.5) << kernel.name;
    EXPECT_LT(shares.norm, 0.5) << kernel.name;
    EXPECT_LT(shares.mean, 0.5) << kernel.name;
  }
}

TEST(packed_judge, few_elements_do_not_fail_by_chance) {
  for (const Kernel& kernel : kKernels) {
    Shares shares;
    for (const WeightFormat& format : test::all_formats())
      for (u64 seed = 1; seed <= 20 * seeds() && takes(kernel, format); ++seed) {
        const i64 k = std::array{1, 3, 40, 128, 200}[seed % 5];
        const DataKind kind = seed % 3 == 0 ? DataKind::positive : DataKind::real;
        const auto data = packed::random_data(problem_of(kernel, format, 1, 1, k), kind, seed);
        ASSERT_TRUE(data.ok()) << data.error().message;
        const auto found = packed::judge(*data, packed::reference_sums(*data),
                                         EmulatedProduct(*data, kernel.rounding).d(), 0, kernel.rounding);
        EXPECT_TRUE(found.passed()) << to_string(data->problem) << " seed " << seed << describe(found);
        shares.take(found);
      }
    shares.print(kernel.name);
    EXPECT_LE(shares.worst, 0.5) << kernel.name;
    EXPECT_LT(shares.norm, 0.5) << kernel.name;
    EXPECT_LE(shares.mean, 0.5) << kernel.name;
  }
}

TEST(packed_judge, finds_nothing_at_all_the_other_sign_and_a_tenth_too_much) {
  for (const Kernel& kernel : kKernels)
    for (const i64 k : {1024, 8192})
      for (const ScaleZero zero : {ScaleZero::none, ScaleZero::per_group})
        for (const DType d : {zero == ScaleZero::none ? DType::fp32 : DType::bf16}) {
          PackedProblem problem = problem_of(kernel, {.group = 128, .zero = zero}, 2, 32, k);
          problem.d = d;
          const auto data = packed::random_data(problem, DataKind::real, 3);
          ASSERT_TRUE(data.ok()) << data.error().message;
          const auto sums = packed::reference_sums(*data);
          const EmulatedProduct product(*data, kernel.rounding);
          const std::vector<u8> right = product.d();
          Comparison found;
          const auto passes = [&](double factor) {
            std::vector<u8> buffer = right;
            for (i64 m = 0; m < 2; ++m)
              for (i64 n = 0; n < 32; ++n)
                product.put(buffer, m, n, factor * sums[static_cast<size_t>(m * 32 + n)].value);
            found = packed::judge(*data, sums, buffer, 0, kernel.rounding);
            return found.passed() || found.norm_ratio < 1.5;  // or fails, but only just
          };
          const std::string what = std::string(kernel.name) + ", " + to_string(data->problem);
          EXPECT_LT(packed::judge(*data, sums, right, 0, kernel.rounding).norm_ratio, 0.5) << what;
          EXPECT_FALSE(passes(0.0)) << what;
          EXPECT_FALSE(passes(-1.0)) << what;
          EXPECT_FALSE(passes(1.1)) << what << ", " << describe(found) << found.norm_ratio;
        }
}

/// Runs a kernel with a bug on positive data, and checks the result.
Comparison judged(const Kernel& kernel, Flaw flaw, i64 k) {
  const auto data = packed::random_data(problem_of(kernel, {.group = 128, .scale = DType::fp32}, 2, 256, k),
                                        DataKind::positive, 5);
  EXPECT_TRUE(data.ok());
  return packed::judge(*data, packed::reference_sums(*data),
                       EmulatedProduct(*data, kernel.rounding, flaw).d(), 0, kernel.rounding);
}

TEST(packed_judge, sees_the_bias_of_sums_that_are_never_promoted) {
  const Comparison found = judged(kKernels[4], Flaw::never_promoted, 512);
  EXPECT_EQ(found.wrong, 0) << "no element is out of its bound";
  EXPECT_GT(found.mean_ratio, 2);
  EXPECT_LT(found.mean_error, 0);
  EXPECT_FALSE(found.passed());
}

TEST(packed_judge, sees_the_bias_of_weights_that_are_cut_instead_of_rounded) {
  for (const Kernel& kernel : {kKernels[2], kKernels[3]}) {
    const Comparison found = judged(kernel, Flaw::weights_cut, 512);
    EXPECT_EQ(found.wrong, 0) << kernel.name;
    EXPECT_GT(found.mean_ratio, 1.2) << kernel.name << describe(found);
    EXPECT_FALSE(found.passed());
  }
}

// The bench launches each candidate on this problem before it times it.
TEST(packed_judge, every_candidate_takes_the_small_problem_of_whole_numbers) {
  const DeviceInfo device{};
  const PackedProblem own[] = {
      {.m = 5, .n = 6144, .k = 4096, .x = DType::bf16, .d = DType::bf16, .norm_a = true, .residual = true},
      {.m = 16, .n = 28672, .k = 4096, .activation = Activation::silu, .gated = true},
      {.m = 33, .n = 100, .k = 40, .ld_x = 48, .ld_d = 111},
      {.m = 8, .n = 1280, .k = 8192, .weights = {.group = 32}},
      {.m = 700, .n = 72, .k = 392, .weights = {.group = 32}},
      {.m = 4096, .n = 4096, .k = 14336, .x = DType::fp16, .weights = {.type = WeightType::int8, .group = 0}},
      {.m = 300,
       .n = 8192,
       .k = 28672,
       .x = DType::e4m3,
       .d = DType::e4m3,
       .weights = {.order = FragmentOrder::byte},
       .gated = true,
       .scale_d = ScaleMode::tensor}};
  std::vector<Problem> problems(std::begin(own), std::end(own));
  const std::vector<Problem> set = *bench::problem_set("packed");
  for (const Problem& item : set) problems.push_back(item);
  i64 checked = 0;
  for (const Problem& problem : problems) {
    const auto plans = gemm::candidates(problem, device);
    ASSERT_TRUE(plans.ok()) << plans.error().message;
    const auto data = packed::random_data(packed::small_problem(plans->at(0).problem), DataKind::exact, 1);
    ASSERT_TRUE(data.ok()) << data.error().message;
    for (const Plan& plan : *plans) {
      const auto taken = packed::sealed({.problem = data->problem, .config = plan.config}, device);
      EXPECT_TRUE(taken.ok()) << to_string(plan.config) << taken.error().message;
      ++checked;
    }
    if (&problem - problems.data() >= 7) continue;
    const std::vector<u8> unwritten(static_cast<size_t>(packed::d_buffer_bytes(data->problem, 0)), 0xFF);
    EXPECT_EQ(packed::judge(*data, packed::reference_sums(*data), unwritten, 0).inexact_inputs, 0)
        << to_string(data->problem);
  }
  EXPECT_GT(checked, 1000);
}

}  // namespace
}  // namespace sluice
