// SPDX-License-Identifier: Apache-2.0
// Refusals of gemm::plan: the code, and a message with value, rule and remedy. Valid but unusual problems are
// planned. Each case names its code and words of its message, and fails if the plan succeeds. To see it fail:
// return early from check_strides or check_types.
#include <string>

#include <gtest/gtest.h>

#include <sluice/plan.h>
#include <sluice/plan/dense/problem_checks.h>

namespace sluice {
namespace {

constexpr i64 kTooLarge = i64{1} << 31;
const DeviceInfo kH200{};

Problem problem(DType type, i64 m, i64 n, i64 k) {
  Problem p{.m = m, .n = n, .k = k};
  p.a.type = p.b.type = type;
  return p;
}

void expect_refused(const Problem& p, ErrorCode code, std::initializer_list<const char*> words) {
  const Result<Plan> plan = gemm::plan(p, kH200);
  ASSERT_FALSE(plan.ok()) << to_string(p);
  EXPECT_EQ(plan.error().code, code) << plan.error().message;
  for (const char* word : words)
    EXPECT_NE(plan.error().message.find(word), std::string::npos)
        << plan.error().message << "\nhas no \"" << word << '"';
}

void expect_planned(const Problem& p) {
  const Result<Plan> plan = gemm::plan(p, kH200);
  ASSERT_TRUE(plan.ok()) << plan.error().message << "\n" << to_string(p);
  EXPECT_EQ(validate(plan->config), nullptr);
  EXPECT_EQ(plan->smem_bytes, smem_bytes(plan->config));
  EXPECT_EQ(plan->workspace_bytes, 0);
  EXPECT_GE(plan->split.clusters, 1);
}

TEST(planner_checks, sizes_are_not_negative_and_fit_in_32_bit_offsets) {
  for (i64 Problem::*size : {&Problem::m, &Problem::n, &Problem::k, &Problem::batch}) {
    Problem p = problem(DType::bf16, 64, 64, 64);
    p.*size = -1;
    expect_refused(p, ErrorCode::invalid_size, {"= -1", "must not be negative"});
    p.*size = kTooLarge;
    expect_refused(p, ErrorCode::invalid_size, {"2147483648", "at most", "split"});
    p.*size = i64{1} << 62;
    expect_refused(p, ErrorCode::invalid_size, {"at most"});
  }
  // Each size is valid, but their product is too large.
  expect_refused(problem(DType::bf16, 1 << 30, 1 << 30, 8), ErrorCode::invalid_size, {"2^30 tiles"});
  Problem p = problem(DType::bf16, 1 << 30, 8, 8);
  p.batch = 1 << 20;
  expect_refused(p, ErrorCode::invalid_size, {"2^30 tiles"});
}

TEST(planner_checks, byte_counts_fit_in_63_bits) {
  Problem p = problem(DType::bf16, 1 << 30, 64, 64);
  p.a.ld = i64{1} << 36;
  expect_refused(p, ErrorCode::invalid_size, {"A spans more than 2^63 bytes", "a.ld = 68719476736", "split"});
  p = problem(DType::bf16, 64, 64, 64);
  p.batch = 1 << 20;
  p.d.batch_stride = i64{1} << 50;
  expect_refused(p, ErrorCode::invalid_size, {"D spans", "batch stride = 1125899906842624"});
  p = problem(DType::bf16, 64, 64, 0);  // A is not read, but no sum of offsets may overflow
  p.a.ld = i64{1} << 62;
  expect_refused(p, ErrorCode::invalid_size, {"A spans"});
}

TEST(planner_checks, types_must_be_a_pair_that_wgmma_multiplies) {
  Problem p = problem(DType::fp32, 64, 64, 64);
  expect_refused(p, ErrorCode::invalid_type, {"A is fp32", "must be bf16, fp16, e4m3 or e5m2"});
  p = problem(DType::bf16, 64, 64, 64);
  p.b.type = DType::fp16;
  expect_refused(p, ErrorCode::invalid_type, {"A is bf16 and B is fp16", "one type"});
  p.b.type = DType::e4m3;
  expect_refused(p, ErrorCode::invalid_type, {"A is bf16 and B is e4m3", "8-bit"});
  p = problem(DType::bf16, 64, 64, 64);
  p.d.type = DType::e5m2;
  expect_refused(p, ErrorCode::invalid_type, {"D is e5m2", "must be bf16, fp16, fp32 or e4m3"});
  p = problem(DType::e4m3, 64, 64, 64);
  p.b.type = DType::e5m2;
  expect_planned(p);
  p.a.major = Major::mn;
  expect_refused(p, ErrorCode::invalid_type, {"A is e4m3 and mn-major", "k-major"});
  p.a.major = Major::k;
  p.b.major = Major::mn;
  expect_refused(p, ErrorCode::invalid_type, {"B is e5m2 and mn-major", "k-major"});
  p = problem(DType::bf16, 64, 64, 64);
  p.d.major = Major::mn;
  expect_refused(p, ErrorCode::invalid_type, {"row-major", "swap"});
}

TEST(planner_checks, bias_and_residual_types_count_only_if_used) {
  Problem p = problem(DType::bf16, 64, 64, 64);
  p.epilogue.bias_type = p.epilogue.c_type = DType::e4m3;
  expect_planned(p);
  p.epilogue.bias = Bias::column;
  expect_refused(p, ErrorCode::invalid_type, {"bias is e4m3"});
  p.epilogue.bias = Bias::none;
  p.epilogue.residual = true;
  expect_refused(p, ErrorCode::invalid_type, {"C is e4m3"});
}

TEST(planner_checks, a_c_that_is_not_there_is_not_looked_at) {
  Problem p{.m = 2147479552, .n = 2147479552, .k = 16};
  p.a.type = p.b.type = p.d.type = DType::e4m3;
  EXPECT_TRUE(check_problem(p)) << check_problem(p).error().message;
  p.epilogue.residual = true;
  ASSERT_FALSE(check_problem(p));
  EXPECT_NE(check_problem(p).error().message.find("C spans more than 2^63 bytes"), std::string::npos);
}

TEST(planner_checks, rows_must_not_overlap) {
  Problem p = problem(DType::bf16, 64, 128, 256);
  p.a.ld = 248;
  expect_refused(p, ErrorCode::invalid_stride, {"a.ld = 248", "at least k = 256"});
  p = problem(DType::bf16, 64, 128, 256);
  p.b.major = Major::mn;
  p.b.ld = 120;
  expect_refused(p, ErrorCode::invalid_stride, {"b.ld = 120", "at least n = 128"});
  p = problem(DType::bf16, 64, 128, 256);
  p.d.ld = 127;
  expect_refused(p, ErrorCode::invalid_stride, {"d.ld = 127", "at least n = 128"});
  p = problem(DType::bf16, 64, 128, 256);
  p.c.ld = 127;
  expect_planned(p);  // C is not read
  p.epilogue.residual = true;
  expect_refused(p, ErrorCode::invalid_stride, {"c.ld = 127"});
  p = problem(DType::bf16, 64, 128, 256);
  p.b.ld = -256;
  expect_refused(p, ErrorCode::invalid_stride, {"b.ld = -256", "must not be negative"});
}

TEST(planner_checks, matrices_of_d_must_not_overlap) {
  Problem p = problem(DType::bf16, 64, 128, 64);
  p.batch = 3;
  p.d.batch_stride = 64 * 128 - 1;
  expect_refused(p, ErrorCode::invalid_stride, {"d.batch_stride = 8191", "at least 8192"});
  p.d.ld = 136;
  p.d.batch_stride = 63 * 136 + 128;  // the smallest valid stride
  expect_planned(p);
  p.d.ld = 3 * 128;  // matrices next to each other: D[m][batch][n]
  p.d.batch_stride = 128;
  expect_planned(p);
  p.d.batch_stride = 120;
  expect_refused(p, ErrorCode::invalid_stride, {"would overlap"});
  p.d.ld = 3 * 128 - 8;
  p.d.batch_stride = 128;
  expect_refused(p, ErrorCode::invalid_stride, {"would overlap"});
  p = problem(DType::bf16, 64, 128, 64);
  p.batch = 3;
  p.a.batch_stride = p.b.batch_stride = 8;  // inputs may overlap
  expect_planned(p);
}

TEST(planner_checks, strides_of_fp8_must_be_ones_that_tma_takes) {
  expect_refused(
      problem(DType::e4m3, 64, 64, 100), ErrorCode::misaligned,
      {"k = 100 must be a multiple of 16 for e4m3", "rows of A are 100 bytes apart", "pad a.ld to 112"});
  Problem p = problem(DType::e4m3, 64, 64, 100);
  p.a.ld = 112;
  expect_refused(p, ErrorCode::misaligned, {"k = 100", "rows of B", "pad b.ld"});
  p.b.ld = 113;
  expect_refused(p, ErrorCode::misaligned, {"b.ld = 113", "pad b.ld to 128"});
  p.b.ld = 128;
  expect_planned(p);
  p.batch = 2;
  p.a.batch_stride = 7172;
  expect_refused(p, ErrorCode::misaligned, {"a.batch_stride = 7172", "to 7184"});
  p.a.batch_stride = i64{1} << 40;
  expect_refused(p, ErrorCode::misaligned, {"2^40"});
  p = problem(DType::e4m3, 2, 64, 64);
  p.b.ld = i64{1} << 40;
  expect_refused(p, ErrorCode::misaligned, {"b.ld = 1099511627776", "less than 1099511627776"});
  p = problem(DType::e4m3, 64, 64, 128);
  p.b.unaligned = true;
  expect_refused(p, ErrorCode::misaligned,
                 {"b.unaligned = true and B is e4m3", "multiple of 16 bytes", "move it, or use 16-bit"});
}

TEST(planner_checks, strides_and_addresses_of_16_bits_may_be_any) {
  expect_planned(problem(DType::bf16, 64, 64, 100));
  Problem p = problem(DType::fp16, 61, 64, 64);
  p.a.major = Major::mn;
  expect_planned(p);
  p.batch = 2;
  p.a.batch_stride = 4001;
  expect_planned(p);
  p = problem(DType::bf16, 2, 64, 64);
  p.b.ld = i64{1} << 39;  // beyond TMA's limit
  expect_planned(p);
  p = problem(DType::bf16, 2, 64, 64);
  p.a.unaligned = p.b.unaligned = p.c.unaligned = p.d.unaligned = true;
  expect_planned(p);
  EXPECT_FALSE(check_problem(p)->c.unaligned) << "C is read by elements: it says nothing of C";
  p.a.ld = 63;
  expect_refused(p, ErrorCode::invalid_stride, {"a.ld = 63", "at least k = 64"});
}

TEST(planner_checks, strides_of_one_row_or_one_matrix_do_not_matter) {
  Problem p = problem(DType::bf16, 1, 1, 100);
  expect_planned(p);
  p.a.batch_stride = p.b.batch_stride = 3;
  expect_planned(p);
  p.d.ld = 1;
  p.d.batch_stride = 1;
  expect_planned(p);
}

TEST(planner_checks, zero_sizes_are_legal) {
  for (const i64 m : {0, 1, 7, 64})
    for (const i64 n : {0, 1, 7, 64})
      for (const i64 k : {0, 8, 64})
        for (const i64 batch : {0, 1, 3}) {
          Problem p = problem(DType::bf16, m, n, k);
          p.batch = batch;
          expect_planned(p);
        }
  Problem p = problem(DType::bf16, 5, 5, 0);
  p.epilogue = {.bias = Bias::column, .residual = true};
  expect_planned(p);
}

TEST(planner_checks, d_that_tma_cannot_address_is_stored_directly) {
  const auto store = [](const Problem& p) {  // plain schedules always store without TMA
    return gemm::plan(p, kH200, {.schedule = Schedule::ping_pong})->config.store;
  };
  EXPECT_EQ(store(problem(DType::bf16, 64, 64, 64)), StorePath::tma);
  EXPECT_EQ(store(problem(DType::bf16, 64, 65, 64)), StorePath::direct);
  EXPECT_EQ(store(problem(DType::bf16, 1, 65, 64)), StorePath::direct);
  Problem p = problem(DType::bf16, 64, 65, 64);
  p.d.ld = 72;  // a TMA store would overwrite the caller's padding (docs/findings/tma-store-tail.md)
  EXPECT_EQ(store(p), StorePath::direct);
  p.n = 72;
  EXPECT_EQ(store(p), StorePath::tma);
  p.d.ld = 76;
  EXPECT_EQ(store(p), StorePath::direct);
  p.d.ld = 80;
  EXPECT_EQ(store(p), StorePath::tma);
  p.batch = 2;
  p.d.batch_stride = 80 * 64 + 4;
  EXPECT_EQ(store(p), StorePath::direct);
  p.batch = 1;  // a single matrix needs no batch stride, a single row no pitch
  EXPECT_EQ(store(p), StorePath::tma);
  p.m = 1;
  p.d.ld = 76;
  EXPECT_EQ(store(p), StorePath::tma);
  p = problem(DType::e4m3, 64, 72, 64);
  p.d.type = DType::e4m3;
  EXPECT_EQ(store(p), StorePath::direct);
  p.n = 80;
  EXPECT_EQ(store(p), StorePath::tma);
}

TEST(planner_checks, only_compute_capability_9_0_is_taken) {
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {9, 1}, {10, 0}, {12, 0}}) {
    DeviceInfo device;
    device.name = "Other GPU";
    device.compute_major = major;
    device.compute_minor = minor;
    const Result<Plan> plan = gemm::plan(problem(DType::bf16, 64, 64, 64), device);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, ErrorCode::unsupported_arch);
    const std::string capability = std::to_string(major) + "." + std::to_string(minor);
    EXPECT_NE(plan.error().message.find("Other GPU has compute capability " + capability), std::string::npos);
  }
}

TEST(planner_checks, strides_of_the_plan_are_filled_in) {
  Problem p = problem(DType::bf16, 24, 40, 56);
  p.batch = 3;
  p.b.major = Major::mn;
  const Problem filled = gemm::plan(p, kH200)->problem;
  EXPECT_EQ(filled, with_strides(p));
  EXPECT_EQ(filled.a.ld, 56);
  EXPECT_EQ(filled.b.ld, 40);
  EXPECT_EQ(filled.b.batch_stride, 40 * 56);
  EXPECT_EQ(filled.d.batch_stride, 24 * 40);
}

}  // namespace
}  // namespace sluice
