// SPDX-License-Identifier: Apache-2.0
// Ranges of rows planned without a GPU: at most twelve kernels per layer, their modelled loss against a plan
// per m, a kernel for every m, repeatable answers, misuse. To see it fail: take half of tried::kRangeRows.
#include <sluice/rows.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <sluice/plan/text/units.h>
#include <sluice/records.h>
#include <sluice/run/ops/gemm.h>
#include "tests/packed_problems.h"

namespace sluice {
namespace {

struct Layer {
  i64 n, k;
};
constexpr Layer kLayers[] = {{4096, 4096}, {28672, 4096}, {4096, 14336},
                             {6144, 4096}, {5120, 13824}, {896, 4864}};

Problem bf16_layer(Layer layer) {
  return {.n = layer.n, .k = layer.k};
}
Problem fp8_layer(Layer layer) {
  Problem p{.n = layer.n, .k = layer.k};
  p.a.type = p.b.type = DType::e4m3;
  p.epilogue = {.scale_a = ScaleMode::vector, .scale_b = ScaleMode::vector};
  return p;
}
PackedProblem int4_layer(Layer layer) {
  return {.n = layer.n, .k = layer.k, .weights = {.type = WeightType::uint4, .group = 128}};
}

struct Losses {
  double mean = 0, worst = 0;
};
constexpr Losses kDense{0.025, 0.09};
// Every eighth number of tokens has a tile of its width, and twelve kernels have twelve widths
// (docs/findings/int4-widths.md).
constexpr Losses kInt4{0.065, 0.40};
constexpr Losses kLongRange{0.03, 0.22};

gemm::RowTable table_of(const Problem& p, RowRange rows) {
  return *gemm::plan_rows(p, rows, {}, RecordBook());
}
double us_alone(const Problem& p) {
  return gemm::plan(p, {}, {}, RecordBook())->estimate.total_us;
}
double us_in(const gemm::RowTable& table, i64 m) {
  return gemm::plan(table, m, {})->estimate.total_us;
}

/// Compares the estimates of the range's kernels with those of a plan per m, at each `step`-th m.
Losses expect_few(Problem problem, RowRange rows, i64 step, const char* what, Losses bound) {
  const auto table = table_of(problem, rows);
  Losses found;
  i64 worst_m = rows.low;
  int count = 0;
  for (i64 m = rows.low; m <= rows.high; m += step, ++count) {
    problem.m = m;
    const double loss = std::max(us_in(table, m) / us_alone(problem) - 1, 0.0);
    found.mean += loss;
    if (loss > found.worst) found.worst = loss, worst_m = m;
  }
  found.mean /= count;
  std::printf("%s %ld x %ld, 1..%ld: %d kernels, %.2f %% in the mean, %.2f %% at %ld rows\n", what,
              long{problem.n}, long{problem.k}, long{rows.high}, table.summary.kernels, 100 * found.mean,
              100 * found.worst, long{worst_m});
  EXPECT_LE(table.summary.kernels, kMostRowKernels);
  EXPECT_LE(table.kernels.size(), static_cast<std::size_t>(kMostRowKernels));
  EXPECT_LE(found.mean, bound.mean) << what << " " << problem.n << " x " << problem.k;
  EXPECT_LE(found.worst, bound.worst) << what << " " << problem.n << " x " << problem.k << " " << worst_m;
  return found;
}

TEST(row_plans, few_kernels_serve_1_to_512_rows_of_the_layers_of_models) {
  constexpr i64 kStep = 7;
  double sum = 0;
  int count = 0;
  for (const Layer& layer : kLayers) {
    sum += expect_few(bf16_layer(layer), {1, 512}, kStep, "bf16", kDense).mean;
    sum += expect_few(fp8_layer(layer), {1, 512}, kStep, "fp8", kDense).mean;
    count += 2;
    expect_few(int4_layer(layer), {1, 512}, kStep, "int4", kInt4);
  }
  std::printf("dense layers: %.2f %% in the mean\n", 100 * sum / count);
  EXPECT_LE(sum / count, 0.012);
}

/// A longer range shares twelve kernels among more sizes. The limit is slightly above the measured loss, so
/// that it cannot grow unnoticed.
TEST(row_plans, twelve_kernels_serve_1_to_8192_rows_too_at_a_price) {
  for (const Layer& layer : {kLayers[0], kLayers[1]}) {
    expect_few(fp8_layer(layer), {1, 8192}, 61, "fp8", kLongRange);
    expect_few(int4_layer(layer), {1, 8192}, 61, "int4", kLongRange);
  }
}

TEST(row_plans, every_m_is_served_by_one_of_the_kernels_and_launches_no_other_unit) {
  for (const Problem& problem : {bf16_layer(kLayers[1]), fp8_layer(kLayers[2])}) {
    const auto table = gemm::plan_rows(problem, {1, 2048}, {});
    ASSERT_TRUE(table.ok());
    std::set<std::string> units;
    for (const Plan& kernel : table->kernels)
      for (const std::string& unit : unit_texts(kernel.config)) units.insert(unit);
    EXPECT_EQ(static_cast<int>(units.size()), table->summary.kernels);
    for (i64 m = 1; m <= 2048; ++m) {
      const Result<Plan> plan = gemm::plan(*table, m, {});
      ASSERT_TRUE(plan.ok()) << m << ": " << plan.error().message;
      EXPECT_EQ(plan->problem.m, m);
      for (const std::string& unit : unit_texts(plan->config)) EXPECT_TRUE(units.contains(unit)) << m;
      EXPECT_EQ(plan->split.numbering, Numbering::launch) << m;
      EXPECT_TRUE(gemm::sealed(*plan, {}).ok()) << m;
    }
  }
  const auto table = gemm::plan_rows(int4_layer(kLayers[2]), {1, 2048}, {});
  ASSERT_TRUE(table.ok());
  for (i64 m = 1; m <= 2048; ++m) {
    const Result<Plan> plan = gemm::plan(*table, m, {});
    ASSERT_TRUE(plan.ok()) << m;
    EXPECT_TRUE(std::any_of(table->kernels.begin(), table->kernels.end(),
                            [&](const Plan& kernel) { return kernel.config == plan->config; }));
  }
}

/// To see it fail: remove the sort in row_text.cc. Kernels are then listed in the order in which they were
/// chosen.
TEST(row_plans, the_text_lists_kernels_by_the_rows_that_they_begin_with) {
  for (const Layer& layer : kLayers) {
    const auto table = gemm::plan_rows(bf16_layer(layer), {1, 512}, {});
    ASSERT_TRUE(table.ok());
    const std::string text = describe(*table, {});
    i64 before = 0;
    for (size_t at = text.find("m = "); at != std::string::npos; at = text.find("m = ", at + 1)) {
      const i64 first = std::atoll(text.c_str() + at + 4);
      EXPECT_GT(first, before) << text;
      before = first;
    }
    EXPECT_GT(before, 1) << text;
  }
}

/// An A in columns without gaps has m as its pitch, and TMA can address every eighth pitch only.
TEST(row_plans, both_ways_to_load_an_mn_major_a_are_among_the_kernels) {
  Problem p = bf16_layer(kLayers[0]);
  p.a.major = Major::mn;
  // Ends that are multiples of 8 and ends that are none; between some of them lies no fixed m.
  for (const RowRange rows : {RowRange{1, 512}, {8, 512}, {113, 142}, {130, 142}, {513, 559}, {9, 9}}) {
    const auto table = gemm::plan_rows(p, rows, {});
    ASSERT_TRUE(table.ok()) << table.error().message;
    for (i64 m = rows.low; m <= rows.high; ++m) {
      const Result<Plan> plan = gemm::plan(*table, m, {});
      ASSERT_TRUE(plan.ok()) << rows.low << ".." << rows.high << ", " << m << ": " << plan.error().message;
      const Result<Plan> sealed = gemm::sealed(*plan, {});
      EXPECT_TRUE(sealed.ok()) << m << ": " << sealed.error().message;
    }
  }
}

TEST(row_plans, a_record_whose_kernel_is_loaded_plans_its_m) {
  const auto table = gemm::plan_rows(bf16_layer(kLayers[0]), {1, 512}, {});
  ASSERT_TRUE(table.ok());
  int recorded = 0;
  for (i64 m = 1; m <= 512; ++m) {
    Problem alone = bf16_layer(kLayers[0]);
    alone.m = m;
    const Plan own = *gemm::plan(alone, {});
    const bool loaded = std::any_of(table->kernels.begin(), table->kernels.end(),
                                    [&](const Plan& kernel) { return kernel.config == own.config; });
    if (own.source != PlanSource::record || !loaded) continue;
    const Result<Plan> plan = gemm::plan(*table, m, {});
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->source, PlanSource::record) << m;
    EXPECT_EQ(plan->config, own.config) << m;
    EXPECT_EQ(plan->split.numbering, Numbering::launch) << m;
    ++recorded;
  }
  EXPECT_GT(recorded, 0) << "the shipped records have this layer";
}

TEST(row_plans, equal_questions_have_equal_answers) {
  const auto first = gemm::plan_rows(fp8_layer(kLayers[0]), {1, 300}, {});
  const auto again = gemm::plan_rows(fp8_layer(kLayers[0]), {1, 300}, {});
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(first->summary, again->summary);
  ASSERT_EQ(first->kernels.size(), again->kernels.size());
  for (std::size_t i = 0; i < first->kernels.size(); ++i)
    EXPECT_EQ(first->kernels[i].config, again->kernels[i].config);
}

TEST(row_plans, one_number_of_rows_gets_its_own_plan) {
  for (const i64 m : {1, 77, 500}) {
    Problem alone = bf16_layer(kLayers[3]);
    alone.m = m;
    const auto table = gemm::plan_rows(alone, {m, m}, {});
    ASSERT_TRUE(table.ok());
    EXPECT_EQ(gemm::plan(*table, m, {})->config, gemm::plan(alone, {})->config);
  }
}

template <class Answer>
void expect_refused(const Answer& answer, ErrorCode code, const char* mention) {
  ASSERT_FALSE(answer.ok()) << mention;
  EXPECT_EQ(answer.error().code, code);
  EXPECT_NE(answer.error().message.find(mention), std::string::npos) << answer.error().message;
}

TEST(row_plans, a_range_that_is_none_is_refused_with_the_rule) {
  const Problem p = bf16_layer(kLayers[0]);
  expect_refused(gemm::plan_rows(p, {0, 16}, {}), ErrorCode::invalid_size,
                 "rows = 0 to 16 must be from at least 1");
  expect_refused(gemm::plan_rows(p, {-3, 16}, {}), ErrorCode::invalid_size, "rows = -3 to 16");
  expect_refused(gemm::plan_rows(p, {17, 16}, {}), ErrorCode::invalid_size, "rows = 17 to 16");
  expect_refused(gemm::plan_rows(p, {1, i64{1} << 40}, {}), ErrorCode::invalid_size, "m = 1099511627776");
  expect_refused(gemm::plan_rows(int4_layer(kLayers[0]), {0, 1}, {}), ErrorCode::invalid_size,
                 "rows = 0 to 1");
  expect_refused(gemm::plan_rows(int4_layer(kLayers[0]), {1, i64{1} << 40}, {}), ErrorCode::invalid_size,
                 "1099511627776");
  Problem bad = p;
  bad.a.ld = 5;
  expect_refused(gemm::plan_rows(bad, {1, 16}, {}), ErrorCode::invalid_stride, "5");
  const auto table = gemm::plan_rows(p, {8, 16}, {});
  ASSERT_TRUE(table.ok());
  expect_refused(gemm::plan(*table, 17, {}), ErrorCode::invalid_size, "8 to 16");
  expect_refused(gemm::plan(*table, 7, {}), ErrorCode::invalid_size, "m = 7");
}

TEST(row_plans, a_product_of_nothing_has_a_table_too) {
  EXPECT_TRUE(gemm::plan_rows({.n = 0, .k = 64}, {1, 40}, {}).ok());
  EXPECT_TRUE(gemm::plan_rows({.n = 64, .k = 0}, {1, 40}, {}).ok());
  EXPECT_TRUE(gemm::plan_rows({.n = 0, .k = 128}, {1, 40}, {}).ok());
  EXPECT_TRUE(gemm::plan_rows({.n = 64, .k = 0}, {1, 40}, {}).ok());
}

TEST(row_plans, people_see_each_kernel_with_its_rows) {
  const auto table = gemm::plan_rows(bf16_layer(kLayers[3]), {1, 128}, {});
  ASSERT_TRUE(table.ok());
  const std::string text = describe(*table, {});
  EXPECT_NE(text.find("rows      1..128 of 6144 x 4096"), std::string::npos) << text;
  for (const Plan& kernel : table->kernels)
    EXPECT_NE(text.find(short_name(kernel.config)), std::string::npos);
}

}  // namespace
}  // namespace sluice
