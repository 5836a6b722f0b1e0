// SPDX-License-Identifier: Apache-2.0
// The shape of a scale array determines its granularity, in the forms of torch and of DeepGEMM; other shapes
// are refused. To see it fail: remove the .t() view from is_stored_as.
#include <gtest/gtest.h>

#include <sluice/c_api/call.h>

#include <vector>

#include "c_api_calls.h"

namespace sluice {
namespace {

struct Shape {
  std::vector<int64_t> extents, strides;
};

struct Sizes {
  int64_t m = 64, n = 256, k = 512;
};

Result<Problem> problem_with(const Sizes& s, const Shape& scale_a, const Shape& scale_b) {
  const int64_t a_shape[] = {s.m, s.k}, b_shape[] = {s.k, s.n}, b_strides[] = {1, s.k},
                d_shape[] = {s.m, s.n};
  const sluice_array a{nullptr, SLUICE_E4M3, 2, SLUICE_ON_CPU, 0, a_shape, nullptr};
  const sluice_array b{nullptr, SLUICE_E4M3, 2, SLUICE_ON_CPU, 0, b_shape, b_strides};
  const sluice_array d{nullptr, SLUICE_BF16, 2, SLUICE_ON_CPU, 0, d_shape, nullptr};
  const auto scale = [](const Shape& x) {
    return sluice_array{
        nullptr, SLUICE_FP32,      static_cast<int32_t>(x.extents.size()),        SLUICE_ON_CPU,
        0,       x.extents.data(), x.strides.empty() ? nullptr : x.strides.data()};
  };
  const sluice_array sa = scale(scale_a), sb = scale(scale_b);
  const Product product{.a = &a, .b = &b, .d = &d, .scale_a = &sa, .scale_b = &sb};
  const Result<c_api::Call> found = c_api::call_of(product.call());
  if (!found) return found.error();
  return found->problem;
}

void expect_modes(const Result<Problem>& problem, ScaleMode a, ScaleMode b) {
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  EXPECT_EQ(problem->epilogue.scale_a, a) << name_of(problem->epilogue.scale_a);
  EXPECT_EQ(problem->epilogue.scale_b, b) << name_of(problem->epilogue.scale_b);
}

void expect_refused(const Result<Problem>& problem, const char* mention) {
  ASSERT_FALSE(problem.ok()) << mention;
  EXPECT_NE(problem.error().message.find(mention), std::string::npos) << problem.error().message;
}

TEST(CApiScales, one_value_scales_the_matrix) {
  for (const Shape& one : {Shape{{}, {}}, Shape{{1}, {}}, Shape{{1, 1}, {}}})
    expect_modes(problem_with({}, one, one), ScaleMode::tensor, ScaleMode::tensor);
}

TEST(CApiScales, a_value_for_each_row_and_column) {
  expect_modes(problem_with({}, {{64, 1}, {}}, {{1, 256}, {}}), ScaleMode::vector, ScaleMode::vector);
  expect_modes(problem_with({}, {{64}, {}}, {{256}, {}}), ScaleMode::vector, ScaleMode::vector);
  expect_modes(problem_with({}, {{1}, {}}, {{256}, {}}), ScaleMode::tensor, ScaleMode::vector);
}

TEST(CApiScales, blocks_as_deepgemm_and_as_torch_spell_them) {
  const Shape a{{64, 4}, {}};
  expect_modes(problem_with({}, a, {{2, 4}, {}}), ScaleMode::block, ScaleMode::block);
  expect_modes(problem_with({}, a, {{4, 2}, {1, 4}}), ScaleMode::block, ScaleMode::block);
}

/// DeepGEMM's quantisers store the scales of A by columns, whose distance is a multiple of 4.
TEST(CApiScales, blocks_of_a_may_be_stored_by_columns) {
  const Shape b{{2, 4}, {}};
  const auto ld_of = [&](const Sizes& sizes, const Shape& a, const Shape& of_b) {
    const Result<Problem> problem = problem_with(sizes, a, of_b);
    expect_modes(problem, ScaleMode::block, ScaleMode::block);
    return problem.ok() ? problem->scale_a_ld : -1;
  };
  EXPECT_EQ(ld_of({}, {{64, 4}, {}}, b), 0);
  EXPECT_EQ(ld_of({}, {{64, 4}, {4, 1}}, b), 0);
  EXPECT_EQ(ld_of({}, {{64, 4}, {1, 64}}, b), 64);
  EXPECT_EQ(ld_of({}, {{64, 4}, {1, 100}}, b), 100);
  EXPECT_EQ(ld_of({.m = 1}, {{1, 4}, {1, 4}}, b), 4);
  EXPECT_EQ(ld_of({.m = 1}, {{1, 4}, {4, 1}}, b), 0);
  EXPECT_EQ(ld_of({.m = 3}, {{3, 4}, {1, 4}}, b), 4);
  // A single column lies the same either way.
  EXPECT_EQ(ld_of({.m = 64, .n = 256, .k = 128}, {{64, 1}, {1, 64}}, {{2, 1}, {}}), 0);
  // A vector of scales has no columns.
  const Result<Problem> vectors = problem_with({}, {{64, 1}, {1, 64}}, {{1, 256}, {}});
  expect_modes(vectors, ScaleMode::vector, ScaleMode::vector);
  EXPECT_EQ(vectors->scale_a_ld, 0);
}

/// As weight gradients of tokens and gradients that were both cast by 1 x 128.
TEST(CApiScales, each_column_of_b_may_have_a_scale_per_128_of_k) {
  const Shape a{{64, 4}, {1, 72}};
  for (const Shape& b : {Shape{{4, 256}, {}}, Shape{{256, 4}, {1, 256}}}) {
    const Result<Problem> problem = problem_with({}, a, b);
    expect_modes(problem, ScaleMode::block, ScaleMode::vector128);
    EXPECT_EQ(problem->scale_a_ld, 72);
  }
  // With one k block scales of A lie both ways, and those of B are a vector only as (1, n).
  const Sizes short_k{.m = 64, .n = 256, .k = 128};
  const Result<Problem> one = problem_with(short_k, {{64, 1}, {}}, {{256, 1}, {1, 256}});
  expect_modes(one, ScaleMode::block, ScaleMode::vector128);
  EXPECT_EQ(one->scale_a_ld, 64);
  expect_modes(problem_with(short_k, {{64, 1}, {}}, {{1, 256}, {}}), ScaleMode::vector, ScaleMode::vector);
  expect_modes(problem_with({.m = 1}, {{1, 4}, {}}, {{4, 256}, {}}), ScaleMode::block, ScaleMode::vector128);
  expect_refused(problem_with({}, {{64, 4}, {}}, {{4, 256}, {}}), "scale_a.mT.contiguous().mT");
  expect_refused(problem_with({}, a, {{256, 4}, {}}), "(4, 256) for blocks of 1 x 128 of both sides");
  expect_refused(problem_with({}, {{64, 1}, {}}, {{4, 256}, {}}), "scale_b holds block scales");
}

/// A square array is what its memory says: lines of it have the scales of 128 of k.
TEST(CApiScales, square_scales_of_columns_are_lines_of_k) {
  const Sizes sizes{.m = 64, .n = 32, .k = 4096};
  const Shape a{{64, 32}, {1, 64}};
  for (const Shape& b : {Shape{{32, 32}, {}}, Shape{{32, 32}, {1, 32}}})
    expect_modes(problem_with(sizes, a, b), ScaleMode::block, ScaleMode::vector128);
}

TEST(CApiScales, few_values_are_read_as_blocks_only_beside_blocks) {
  const Sizes short_k{.m = 64, .n = 256, .k = 128};
  expect_modes(problem_with(short_k, {{64, 1}, {}}, {{2, 1}, {}}), ScaleMode::block, ScaleMode::block);
  expect_modes(problem_with(short_k, {{64, 1}, {}}, {{1, 256}, {}}), ScaleMode::vector, ScaleMode::vector);
  const Sizes one_row{.m = 1, .n = 256, .k = 128};
  expect_modes(problem_with(one_row, {{1, 1}, {}}, {{2, 1}, {}}), ScaleMode::block, ScaleMode::block);
  const Sizes one_block{.m = 64, .n = 128, .k = 512};
  expect_modes(problem_with(one_block, {{64, 4}, {}}, {{4, 1}, {1, 4}}), ScaleMode::block, ScaleMode::block);
}

TEST(CApiScales, what_cannot_be_read_is_refused_with_the_way_out) {
  expect_refused(problem_with({}, {{64, 4}, {1, 63}}, {{2, 4}, {}}), "scale_a.contiguous()");
  expect_refused(problem_with({}, {{64, 4}, {2, 128}}, {{2, 4}, {}}), "row-major or by columns");
  expect_refused(problem_with({}, {{64, 4}, {5, 1}}, {{2, 4}, {}}), "strides (5, 1)");
  expect_refused(problem_with({}, {{63, 1}, {}}, {{1, 256}, {}}), "(64, 1)");
  expect_refused(problem_with({}, {{64, 4}, {}}, {{1, 256}, {}}),
                 "scale_a holds block scales, so this must too");
  expect_refused(problem_with({}, {{64, 1}, {}}, {{256, 1}, {}}), "(1, 256)");
}

}  // namespace
}  // namespace sluice
