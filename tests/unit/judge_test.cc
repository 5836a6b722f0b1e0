// SPDX-License-Identifier: Apache-2.0
// Proves that the check of dense products can fail. The results of an emulated tensor core use at most half
// of each error bound, and planted faults exceed a bound by half. Tested for every input type and way to
// accumulate, with k from 256 to 16384. To see it fail: compute bounds from sum abs(a b) only; D = 0 then
// passes at k = 8192.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>

#include <sluice/check/verify.h>

#include "emulated_dense.h"
#include "simulated_problem.h"

namespace sluice {
namespace {

using test::EmulatedDense;
using test::HostData;
using test::Parts;
using verify::Sum;

constexpr i64 kRows = 16, kColumns = 32, kElements = kRows * kColumns;
constexpr i64 kLengths[] = {256, 512, 1024, 2048, 4096, 8192, 16384};

struct Sums {
  DType input;
  Accumulate accumulate;
  bool block;
  const char* name;
};
constexpr Sums kSums[] = {{DType::bf16, Accumulate::fast, false, "bf16"},
                          {DType::fp16, Accumulate::fast, false, "fp16"},
                          {DType::e4m3, Accumulate::fast, false, "e4m3 fast"},
                          {DType::e4m3, Accumulate::promoted, false, "e4m3 promoted"},
                          {DType::e4m3, Accumulate::promoted, true, "e4m3 block"},
                          {DType::e5m2, Accumulate::fast, false, "e5m2 fast"},
                          {DType::e5m2, Accumulate::promoted, false, "e5m2 promoted"},
                          {DType::e5m2, Accumulate::promoted, true, "e5m2 block"}};

Problem problem_of(const Sums& sums, i64 k) {
  Problem p{.m = kRows, .n = kColumns, .k = k, .d = {.type = DType::fp32}, .accumulate = sums.accumulate};
  p.a.type = p.b.type = sums.input;
  if (sums.block)
    p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
  else if (is_fp8(sums.input))
    p.epilogue = {.scale_a = ScaleMode::vector, .scale_b = ScaleMode::tensor};
  return with_strides(p);
}

/// Returns operands as the bench makes them, but with this fill.
DataSpec data_of(Fill fill) {
  return {.seed = 5,
          .a = {.kind = fill},
          .b = {.kind = fill},
          .c = {.kind = Fill::poison},
          .scale_a = {.kind = Fill::positive},
          .scale_b = {.kind = Fill::positive}};
}

/// A problem with operands as numbers, exact sums, and a D to be checked.
class Bench {
 public:
  Bench(const Problem& p, const DataSpec& spec) : host_(p, spec), p_(host_.problem) {
    a_ = numbers(0, p_.a.type, p_.m);
    b_ = numbers(1, p_.b.type, p_.n);
    for (i64 i = 0; i < kElements; ++i) sums_.push_back(true_sum(i));
  }

  const Problem& problem() const { return p_; }
  /// Returns alpha * scale_a * scale_b for an element.
  double scale(i64 element) const {
    const Epilogue& e = p_.epilogue;
    double scale = static_cast<double>(host_.spec.alpha);
    if (e.scale_a == ScaleMode::vector) scale *= static_cast<double>(host_.scale(5)[element / kColumns]);
    if (e.scale_b == ScaleMode::tensor) scale *= static_cast<double>(host_.scale(6)[0]);
    return scale;
  }
  double scale_of_tensor() const { return static_cast<double>(host_.scale(6)[0]); }
  /// Returns the values that a right kernel computes, before rounding to D's type.
  std::vector<double> right(const Parts& parts) const {
    const EmulatedDense kernel(p_);
    std::vector<double> values;
    for (i64 i = 0; i < kElements; ++i) {
      const std::vector<float> scales = block_scales(i);
      const float sum = kernel.sum({row(a_, i / kColumns), row(b_, i % kColumns), scales}, parts);
      values.push_back(static_cast<double>(static_cast<float>(scale(i)) * sum));
    }
    return values;
  }
  /// Returns the exact sum over k in [begin, end), times the scales.
  double part(i64 element, i64 begin, i64 end, bool scaled = true) const {
    const auto a = row(a_, element / kColumns), b = row(b_, element % kColumns);
    const std::vector<float> scales = block_scales(element);
    double sum = 0;
    for (i64 k = begin; k < end; ++k) {
      const double scale =
          scales.empty() || !scaled ? 1.0 : static_cast<double>(scales[static_cast<size_t>(k / 128)]);
      sum += scale * a[static_cast<size_t>(k)] * b[static_cast<size_t>(k)];
    }
    return scale(element) * sum;
  }

  /// Checks a D that holds `values` rounded to `type`, and poison in its first `unwritten` elements.
  Comparison judge(std::span<const double> values, DType type, Judge kind = Judge::bounded,
                   i64 unwritten = 0) {
    CheckParams params = host_.params(kind);
    params.problem.d.type = type;
    std::vector<u32> d(kElements);  // large enough for every type
    u8* bytes = reinterpret_cast<u8*>(d.data());
    for (i64 i = 0; i < kElements; ++i) {
      const u32 bits =
          i < unwritten ? verify::poison_of(type) : verify::encode(type, values[static_cast<size_t>(i)]);
      std::memcpy(bytes + i * bytes_of(type), &bits, static_cast<size_t>(bytes_of(type)));
    }
    params.d = d.data();
    host_.log = {};
    verify::Findings findings;
    for (i64 i = 0; i < kElements; ++i)
      verify::judge_element(params, &sums_[static_cast<size_t>(i)], 0, i / kColumns, i % kColumns, findings);
    const CheckLog& log = host_.log;
    return {.checked = kElements,
            .wrong = static_cast<i64>(log.wrong),
            .inexact_inputs = static_cast<i64>(log.inexact_inputs),
            .worst_ratio = findings.worst_ratio,
            .norm_ratio = verify::norm_ratio_of(findings.totals),
            .mean_ratio = verify::mean_ratio_of(findings.totals)};
  }

 private:
  std::vector<double> numbers(int region, DType type, i64 rows) const {
    std::vector<double> values;
    for (i64 i = 0; i < rows * p_.k; ++i) values.push_back(verify::load(type, host_.operand(region), i));
    return values;
  }
  std::span<const double> row(const std::vector<double>& of, i64 index) const {
    return std::span(of).subspan(static_cast<size_t>(index * p_.k), static_cast<size_t>(p_.k));
  }
  std::vector<float> block_scales(i64 element) const {
    std::vector<float> scales;
    for (i64 k = 0; k < p_.k && is_block_scaled(p_.epilogue); k += 128)
      scales.push_back(host_.scale(5)[block_scale_a_index(p_, 0, element / kColumns, k)] *
                       host_.scale(6)[block_scale_b_index(p_, 0, element % kColumns, k)]);
    return scales;
  }
  Sum true_sum(i64 element) const {
    const auto a = row(a_, element / kColumns), b = row(b_, element % kColumns);
    const std::vector<float> scales = block_scales(element);
    Sum sum;
    verify::Run run;
    for (i64 k = 0; k < p_.k; k += verify::kStep) {
      double value = 0, terms = 0;
      for (size_t i = static_cast<size_t>(k); i < static_cast<size_t>(std::min(p_.k, k + verify::kStep));
           ++i) {
        value += a[i] * b[i];
        terms += std::fabs(a[i] * b[i]);
      }
      run.add(verify::core_of(p_.a.type), value, terms);
      if (!verify::ends_run(p_, k + verify::kStep)) continue;
      sum.end(run, scales.empty() ? 1.0 : static_cast<double>(scales[static_cast<size_t>(k / 128)]),
              verify::promotion_roundings(p_));
      run = {};
    }
    return sum;
  }

  HostData host_;
  const Problem& p_;
  std::vector<double> a_, b_;
  std::vector<Sum> sums_;
};

/// Largest errors relative to their bounds.
struct Shares {
  double worst = 0, norm = 0, mean = 0;
  void take(const Comparison& found) {
    worst = std::max(worst, found.worst_ratio);
    norm = std::max(norm, found.norm_ratio);
    mean = std::max(mean, found.mean_ratio);
  }
};

TEST(judge, a_right_kernel_uses_at_most_half_of_every_bound) {
  for (const Sums& sums : kSums)
    for (const Fill fill : {Fill::normal, Fill::uniform, Fill::positive}) {
      Shares shares;
      for (const i64 k : kLengths) {
        Bench bench(problem_of(sums, k), data_of(fill));
        for (const Parts& parts : {Parts{}, Parts{4}, Parts{4, true}}) {
          if (parts.count > 1 && (fill == Fill::uniform || k < 1024)) continue;
          const std::vector<double> d = bench.right(parts);
          for (const DType type : {DType::fp32, DType::bf16, DType::e4m3}) {
            if (type == DType::e4m3 && fill == Fill::positive) continue;  // D would saturate
            const Comparison found = bench.judge(d, type);
            EXPECT_TRUE(found.passed()) << sums.name << " k " << k << describe(found);
            shares.take(found);
          }
        }
      }
      std::printf("%s, %s: of one element's bound %.3f, of all together %.3f, of the mean %.3f\n", sums.name,
                  fill == Fill::positive ? "positive"
                  : fill == Fill::normal ? "normal"
                                         : "uniform",
                  shares.worst, shares.norm, shares.mean);
      EXPECT_LE(shares.worst, 0.5) << sums.name;
      EXPECT_LE(shares.norm, 0.55) << sums.name;
      EXPECT_LE(shares.mean, 0.5) << sums.name;
    }
}

/// A planted fault: a change of a right kernel's output.
struct Plant {
  const char* name;
  std::function<double(const Bench& bench, std::span<const double> right, i64 element)> value;
  i64 unwritten = 0;
};

std::vector<Plant> plants_for(const Problem& p) {
  const i64 tile = is_fp8(p.a.type) ? 128 : 64, at = p.k / 2 / tile * tile;
  const auto right_at = [](std::span<const double> right, i64 i) { return right[static_cast<size_t>(i)]; };
  std::vector<Plant> plants{
      {"nothing at all", [=](auto&, auto, i64) { return 0.0; }},
      {"half of k", [=](auto& bench, auto, i64 i) { return bench.part(i, 0, p.k / 2); }},
      {"a k-tile twice",
       [=](auto& bench, auto right, i64 i) { return right_at(right, i) + bench.part(i, at, at + tile); }},
      {"a k-tile missing",
       [=](auto& bench, auto right, i64 i) { return right_at(right, i) - bench.part(i, at, at + tile); }},
      {"a tile with old data",
       [=](auto&, auto right, i64 i) {
         return right_at(right, i % kColumns < 8 ? (i + 11 * kColumns + 9) % kElements : i);
       }},
      {"a tile unwritten", [=](auto&, auto right, i64 i) { return right_at(right, i); }, 4 * kColumns},
      {"rows shifted", [=](auto&, auto right, i64 i) { return right_at(right, (i + kColumns) % kElements); }},
      {"the other sign", [=](auto&, auto right, i64 i) { return -right_at(right, i); }},
      {"twice", [=](auto&, auto right, i64 i) { return 2 * right_at(right, i); }}};
  if (is_block_scaled(p.epilogue))
    plants.push_back(
        {"no block scales", [=](auto& bench, auto, i64 i) { return bench.part(i, 0, p.k, false); }});
  else if (is_fp8(p.a.type)) {
    plants.push_back({"no scale of the tensor", [=](auto& bench, auto right, i64 i) {
                        return right_at(right, i) / bench.scale_of_tensor();
                      }});
    plants.push_back({"no scales of rows", [=](auto& bench, auto right, i64 i) {
                        return right_at(right, i) / (bench.scale(i) / bench.scale_of_tensor());
                      }});
  }
  return plants;
}

TEST(judge, planted_results_fail_on_reals_by_half_more_than_any_bound) {
  for (const Sums& sums : kSums)
    for (const i64 k : kLengths) {
      Bench bench(problem_of(sums, k), data_of(Fill::normal));
      const std::vector<double> right = bench.right({});
      for (const DType type : {DType::fp32, DType::bf16, DType::e4m3})
        for (const Plant& plant : plants_for(bench.problem())) {
          std::vector<double> d;
          for (i64 i = 0; i < kElements; ++i) d.push_back(plant.value(bench, right, i));
          const Comparison found = bench.judge(d, type, Judge::bounded, plant.unwritten);
          const std::string what = std::string(sums.name) + " > " + name_of(type) + ", k " +
                                   std::to_string(k) + ", " + plant.name + ": ";
          EXPECT_FALSE(found.passed()) << what;
          if (plant.unwritten == 0) {
            EXPECT_GT(std::max(found.norm_ratio, found.worst_ratio), 1.5) << what << describe(found);
          }
        }
    }
}

TEST(judge, planted_results_fail_on_whole_numbers) {
  for (const Sums& sums : kSums)
    for (const i64 k : kLengths) {
      const Problem p = problem_of(sums, k);
      Bench bench(p, exact_data(p, 2));
      const std::vector<double> right = bench.right({});
      EXPECT_TRUE(bench.judge(right, DType::fp32, Judge::exact).passed()) << sums.name << " k " << k;
      for (const DType type : {DType::fp32, DType::bf16, DType::e4m3})
        for (const Plant& plant : plants_for(bench.problem())) {
          std::vector<double> d;
          for (i64 i = 0; i < kElements; ++i) d.push_back(plant.value(bench, right, i));
          const Comparison found = bench.judge(d, type, Judge::exact, plant.unwritten);
          EXPECT_FALSE(found.passed())
              << sums.name << " > " << name_of(type) << ", k " << k << ", " << plant.name;
        }
    }
}

/// With positive data, sums that were never promoted are outside the bound.
TEST(judge, a_lost_promotion_fails_on_positive_data) {
  for (const DType input : {DType::e4m3, DType::e5m2})
    for (const i64 k : {4096, 16384}) {
      Bench fast(problem_of({input, Accumulate::fast, false, ""}, k), data_of(Fill::positive));
      Bench promoted(problem_of({input, Accumulate::promoted, false, ""}, k), data_of(Fill::positive));
      const Comparison found = promoted.judge(fast.right({}), DType::fp32);
      EXPECT_GT(found.norm_ratio, 1.5) << name_of(input) << k << describe(found);
    }
}

/// A D that is truncated instead of rounded is found by the mean of its errors.
TEST(judge, a_d_that_is_cut_fails_by_its_mean) {
  Bench bench(problem_of(kSums[0], 1024), data_of(Fill::normal));
  std::vector<double> d = bench.right({});
  for (double& value : d) {
    const double near = verify::decode(DType::bf16, verify::encode(DType::bf16, value));
    if (std::fabs(near) <= std::fabs(value)) continue;
    value = verify::decode(DType::bf16, verify::encode(DType::bf16, near) - 1);
  }
  EXPECT_GT(bench.judge(d, DType::bf16).mean_ratio, 1.5);
}

}  // namespace
}  // namespace sluice
