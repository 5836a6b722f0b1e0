// SPDX-License-Identifier: Apache-2.0
// Tests the verifier. Its kernels run on simulated threads over host memory, with the CPU reference in place
// of the GEMM kernel. Right results pass, and each kind of damage is found and named. To see it fail: let
// kept_bits return ~0 for D, or leave the beta term out of epilogue() in verify_check.cuh.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include <sluice/reference/element.h>

#include "simulated_problem.h"

namespace sluice {
namespace {

using test::HostData;

Problem varied(u64 seed) {
  const auto pick = [&](int field, int count) { return verify::pick(verify::hash(seed, field), count); };
  const DType inputs[] = {DType::bf16, DType::fp16, DType::e4m3, DType::e5m2};
  const DType outputs[] = {DType::bf16, DType::fp16, DType::fp32, DType::e4m3};
  Problem p{.m = 1 + pick(0, 70), .n = 1 + pick(1, 70), .k = pick(2, 140), .batch = 1 + pick(3, 2)};
  p.a.type = inputs[seed % 4];
  p.b.type = is_fp8(p.a.type) ? inputs[2 + pick(4, 2)] : p.a.type;
  p.d.type = outputs[seed / 4 % 4];
  if (is_16bit(p.a.type)) {
    p.a.major = static_cast<Major>(pick(5, 2));
    p.b.major = static_cast<Major>(pick(6, 2));
  }
  p.a.ld = inner_extent(p.a, p.m, p.k) + 1 + pick(7, 9);
  p.b.ld = inner_extent(p.b, p.n, p.k) + 1 + pick(8, 9);
  p.d.ld = p.n + 3 + pick(9, 9);
  p.c.ld = p.n + pick(10, 9);
  p.accumulate = static_cast<Accumulate>(pick(11, 2));
  const DType others[] = {DType::bf16, DType::fp16, DType::fp32};
  p.epilogue = {.scale_a = static_cast<ScaleMode>(pick(12, 3)),
                .scale_b = static_cast<ScaleMode>(pick(13, 3)),
                .bias = static_cast<Bias>(pick(14, 2)),
                .bias_type = others[pick(15, 3)],
                .activation = static_cast<Activation>(pick(16, 2)),
                .residual = pick(17, 2) != 0,
                .c_type = others[pick(18, 3)]};
  if (is_fp8(p.a.type) && pick(19, 2) != 0) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
  return p;
}

TEST(verify_kernels, pass_exact_results_of_the_reference) {
  for (u64 seed = 0; seed < 20; ++seed) {
    HostData data(varied(seed), exact_data(varied(seed), seed));
    data.multiply();
    const CheckLog log = data.check(Judge::exact);
    ASSERT_EQ(log.wrong, 0u) << "seed " << seed << ": expected " << log.elements[0].expected << ", got "
                             << log.elements[0].got;
    ASSERT_EQ(log.damaged_chunks, 0u) << "seed " << seed;
    ASSERT_EQ(log.inexact_inputs, 0u) << "seed " << seed;
    ASSERT_EQ(log.checked, static_cast<u64>(data.problem.m * data.problem.n * data.problem.batch));
  }
}

TEST(verify_kernels, pass_real_results_of_the_reference_with_every_activation) {
  for (u64 seed = 0; seed < 16; ++seed) {
    Problem p = varied(seed);
    p.epilogue.activation = static_cast<Activation>(seed % 4);
    HostData data(p, real_data(p, seed));
    data.multiply();
    const CheckLog log = data.check(Judge::bounded);
    ASSERT_EQ(log.wrong + log.damaged_chunks, 0u) << "seed " << seed;
    ASSERT_LE(__builtin_bit_cast(double, log.worst_ratio_bits), 1.0);
  }
}

/// A problem of groups, of any kind.
Problem varied_groups(u64 seed) {
  Problem p = varied(seed);
  const Groups kinds[] = {{GroupKind::ends, 1},
                          {GroupKind::ends, 8},
                          {GroupKind::counts, 12},
                          {GroupKind::along_k, 4},
                          {GroupKind::slots, 3}};
  p.groups = kinds[seed % 5];
  if (sums_groups(p)) {
    p.a = {.type = DType::fp16, .major = Major::mn, .ld = p.m + 3};
    p.b = {.type = DType::fp16, .major = Major::mn, .ld = p.n + 2};
    p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::tensor;
    p.epilogue.bias = Bias::none;
    p.batch = 1 + verify::pick(verify::hash(seed, 30), 9);
    return p;
  }
  p.batch = 1 + verify::pick(verify::hash(seed, 30), 9);
  p.a.major = Major::k;
  p.a.ld = p.k + 3;
  if (by_slots(p)) p.m += 2 * p.m;  // whole tokens
  return p;
}

TEST(verify_kernels, pass_results_of_groups) {
  std::array<int, 4> routings{};
  for (u64 seed = 0; seed < 24; ++seed) {
    const Problem p = varied_groups(seed);
    for (const bool exact : {true, false}) {
      HostData data(p, exact ? exact_data(p, seed) : real_data(p, seed));
      ++routings[static_cast<size_t>(data.spec.routing)];
      data.multiply();
      const CheckLog log = data.check(exact ? Judge::exact : Judge::bounded);
      ASSERT_EQ(log.wrong + log.damaged_chunks, 0u) << "seed " << seed;
      i64 rows = sums_groups(p) ? p.batch * p.m : 0;
      if (!sums_groups(p)) for_each_row(data.problem, data.groups(), [&](i64, i64) { ++rows; });
      ASSERT_EQ(log.checked, static_cast<u64>(rows * p.n));
    }
  }
  for (const int times : routings) EXPECT_GT(times, 0);
}

/// The first row of a group that has rows, or of no group.
i64 row_of(const HostData& data, bool of_group) {
  std::vector<bool> used(static_cast<size_t>(data.problem.m));
  for (const GroupRows& each : rows_of_groups(data.problem, data.groups()))
    std::fill(used.begin() + each.begin, used.begin() + each.end, true);
  return std::find(used.begin(), used.end(), of_group) - used.begin();
}

TEST(verify_kernels, find_what_is_wrong_with_groups) {
  Problem p{.m = 90, .n = 40, .k = 64, .batch = 5};
  p.groups = {GroupKind::ends, 16};
  p.epilogue.bias = Bias::column;
  HostData data(p, exact_data(p, 3));
  data.spec.routing = Routing::balanced;
  const std::vector<int> table = table_of(p, Routing::balanced, 3);
  std::copy(table.begin(), table.end(), const_cast<int*>(data.groups()));
  const i64 width = bytes_of(p.d.type) * data.problem.d.ld;
  u8* const d = data.operand(kRegionD);
  const std::vector<u8> poison(d, d + width);
  data.multiply();
  ASSERT_EQ(data.check(Judge::exact).wrong, 0u);
  const i64 inside = row_of(data, true), outside = row_of(data, false);
  ASSERT_LT(outside, p.m) << "rows that pad";
  const std::vector<u8> right(d + inside * width, d + (inside + 1) * width);
  std::copy(right.begin(), right.end(), d + outside * width);  // a row of no group was written
  EXPECT_EQ(data.check(Judge::exact).wrong, static_cast<u64>(p.n));
  EXPECT_EQ(data.check(Judge::exact, 1 << 20).wrong, static_cast<u64>(p.n)) << "also in a sample";
  std::copy(poison.begin(), poison.end(), d + outside * width);
  std::copy(poison.begin(), poison.end(), d + inside * width);  // a row was not written
  EXPECT_EQ(data.check(Judge::exact).unwritten, static_cast<u64>(p.n));
  std::copy(right.begin(), right.end(), d + inside * width);
  std::swap_ranges(data.operand(4), data.operand(4) + bytes_of(p.epilogue.bias_type) * p.n,
                   data.operand(4) + bytes_of(p.epilogue.bias_type) * p.n);  // another group's bias
  EXPECT_GT(data.check(Judge::exact).wrong, 0u);
}

TEST(verify_kernels, find_one_wrong_element_and_say_which) {
  const Problem p = varied(5);
  HostData data(p, exact_data(p, 5));
  data.multiply();
  const i64 row = p.m - 1, column = p.n / 2, index = row * p.d.ld + column;
  const double old = load_element(p.d.type, data.operand(kRegionD), index);
  store_element(p.d.type, data.operand(kRegionD), index, old == 0 ? 1 : old * 2);
  const CheckLog log = data.check(Judge::exact);
  EXPECT_EQ(log.wrong, 1u);
  EXPECT_EQ(log.elements[0].row, row);
  EXPECT_EQ(log.elements[0].column, column);
  EXPECT_EQ(~log.row_low, static_cast<u64>(row));
  EXPECT_EQ(log.column_high, static_cast<u64>(column) + 1);
  EXPECT_EQ(log.damaged_chunks, 0u);
}

TEST(verify_kernels, see_a_block_scale_that_belongs_to_the_next_block) {
  Problem p{.m = 3, .n = 200, .k = 256, .a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
  p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
  HostData data(p, positive_data(p, 1));  // all scales are 1
  data.multiply();
  EXPECT_EQ(data.check(Judge::bounded).wrong, 0u);
  reinterpret_cast<float*>(data.operand(5))[3] = 2.0f;  // scales row 1 from k = 128 on: half of its sum
  EXPECT_EQ(data.check(Judge::bounded).wrong, 200u);
  reinterpret_cast<float*>(data.operand(5))[3] = 1.0f;
  reinterpret_cast<float*>(data.operand(6))[2] = 2.0f;  // scales columns 128 to 199 up to k = 127
  EXPECT_EQ(data.check(Judge::bounded).wrong, 3u * 72u);
}

TEST(verify_kernels, see_a_block_scale_by_columns_that_belongs_to_the_next_row) {
  Problem p{.m = 3, .n = 200, .k = 256, .a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
  p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
  p.scale_a_ld = 4;
  HostData data(p, positive_data(p, 1));  // all scales are 1
  data.multiply();
  EXPECT_EQ(data.check(Judge::bounded).wrong, 0u);
  float* const scales = reinterpret_cast<float*>(data.operand(5));
  scales[3] = 2.0f;  // a gap
  EXPECT_EQ(data.check(Judge::bounded).wrong, 0u);
  scales[4 + 1] = 2.0f;  // scales row 1 from k = 128 on
  EXPECT_EQ(data.check(Judge::bounded).wrong, 200u);
}

TEST(verify_kernels, judge_clamped_gates) {
  Problem p{.m = 5, .n = 96, .k = 64};
  p.d.type = DType::fp32;
  p.epilogue = {.bias = Bias::column, .activation = Activation::clamped_swiglu, .gated = true};
  HostData data(p, real_data(p, 3));
  for (i64 i = 0; i < p.n; ++i)  // so that most gates and ups are clamped on either side
    store_element(DType::bf16, data.operand(4), i, i % 4 < 2 ? 40.0 : -40.0);
  data.multiply();
  const CheckLog right = data.check(Judge::bounded);
  ASSERT_EQ(right.wrong, 0u) << right.elements[0].expected << ", got " << right.elements[0].got;
  ASSERT_EQ(right.checked, 5u * 48u);
  data.problem.epilogue.activation = Activation::silu;  // neither clamped nor with 1 added
  data.multiply();
  data.problem.epilogue.activation = Activation::clamped_swiglu;
  EXPECT_GT(data.check(Judge::bounded).wrong, 100u);
}

TEST(verify_kernels, judge_scales_of_d_and_factors_of_rows) {
  for (const bool gated : {false, true})
    for (const bool blocks : {false, true})
      for (const bool exact : {false, true}) {
        Problem p{.m = 5, .n = gated ? 512 : 200, .k = 150, .batch = 2};
        p.a = p.b = {.type = DType::e4m3, .ld = 160};
        p.d.type = DType::e4m3;
        p.epilogue = {.activation = Activation::relu, .gated = gated, .scale_d = ScaleMode::block};
        p.epilogue.row_factors = true;
        if (blocks) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
        HostData data(p, exact ? exact_data(p, 3) : real_data(p, 3));
        data.multiply();
        const Judge judge = exact ? Judge::exact : Judge::bounded;
        const CheckLog right = data.check(judge);
        ASSERT_EQ(right.wrong + right.damaged_chunks, 0u)
            << right.elements[0].expected << ", got " << right.elements[0].got;
        ASSERT_EQ(right.checked, static_cast<u64>(10 * d_columns(p)));
        // A scale that is twice too large, with codes that fit it, wastes a bit of every code.
        float& scale = data.scale(kRegionScaleOut)[3];
        const float old = std::exchange(scale, 2 * scale);
        EXPECT_GT(data.check(judge).wrong, 0u);
        u8* const codes = data.operand(kRegionD) + d_columns(p) + 128;
        const i64 columns = d_columns(p) - 128;
        const std::vector<u8> kept(codes, codes + columns);
        for (i64 i = 0; i < columns; ++i)
          store_element(DType::e4m3, codes, i, load_element(DType::e4m3, codes, i) / 2);
        EXPECT_GE(data.check(judge).wrong, 1u) << "the first element answers for the scale";
        std::copy(kept.begin(), kept.end(), codes);
        scale = std::numeric_limits<float>::quiet_NaN();  // it was never written
        EXPECT_GE(data.check(judge).wrong, static_cast<u64>(columns));
        scale = old;
        data.scale(kRegionRowFactors)[1] *= 1.5f;
        EXPECT_GT(data.check(judge).wrong, 0u);
      }
}

/// Returns the error that is allowed for an element of row 0.
double bound_of(HostData& data, i64 column) {
  float* d = reinterpret_cast<float*>(data.operand(kRegionD));
  const float right = std::exchange(d[column], 0.0f);
  const CheckLog log = data.check(Judge::bounded);
  d[column] = right;
  return log.wrong == 1 ? log.elements[0].bound : 0.0;
}

TEST(verify_kernels, find_errors_just_past_the_bound_and_forgive_those_within) {
  const Problem p{.m = 40, .n = 40, .k = 512, .d = {.type = DType::fp32}};
  HostData data(p, positive_data(p, 1));
  data.multiply();
  float* d = reinterpret_cast<float*>(data.operand(kRegionD));
  const float right = d[7];
  EXPECT_EQ(data.check(Judge::bounded).wrong, 0u);
  const float bound = static_cast<float>(bound_of(data, 7));
  d[7] = right + 0.9f * bound;
  EXPECT_EQ(data.check(Judge::bounded).wrong, 0u);
  d[7] = right + 1.2f * bound;
  EXPECT_EQ(data.check(Judge::bounded).wrong, 1u);
  d[7] = right - 1.2f * bound;
  EXPECT_EQ(data.check(Judge::bounded).wrong, 1u);
}

/// Above 448, an e4m3 D saturates, which is not an error.
TEST(verify_kernels, take_what_saturates_for_no_error) {
  Problem p{.m = 40, .n = 40, .k = 512, .d = {.type = DType::e4m3}};
  HostData data(p, positive_data(p, 1));
  data.spec.alpha = 3.0f;
  data.multiply();
  const CheckLog log = data.check(Judge::bounded);
  EXPECT_EQ(log.wrong, 0u);
  EXPECT_EQ(std::bit_cast<double>(log.worst_ratio_bits), 0.0);
  EXPECT_EQ(log.count, 0.0) << "all of them do";
}

TEST(verify_kernels, find_damage_in_guards_padding_and_inputs) {
  const Problem p = varied(2);
  const auto damaged = [&](int region, i64 byte) {
    HostData data(p, exact_data(p, 2));
    data.multiply();
    data.operand(region)[byte] ^= 1;
    return data.check(Judge::exact).damaged_chunks;
  };
  EXPECT_EQ(damaged(kRegionD, -1), 1u) << "the byte before D";
  EXPECT_EQ(damaged(kRegionD, p.n * bytes_of(p.d.type)), 1u) << "between n and ldd";
  EXPECT_EQ(damaged(kRegionD, -kGuardBytes), 1u) << "the first byte of the guard";
  EXPECT_EQ(damaged(0, 0), 1u) << "A itself";
  EXPECT_EQ(damaged(1, -5), 1u);
}

TEST(verify_kernels, tell_unwritten_from_wrong) {
  const Problem p = varied(3);
  HostData data(p, exact_data(p, 3));
  EXPECT_EQ(data.check(Judge::unwritten).wrong, 0u) << "the fill itself is what `unwritten` means";
  const u64 outputs = static_cast<u64>(p.m * p.n * p.batch);
  CheckLog log = data.check(Judge::exact);
  EXPECT_EQ(log.wrong, outputs);
  EXPECT_EQ(log.unwritten, outputs);
  data.multiply();
  EXPECT_EQ(data.check(Judge::unwritten).wrong, outputs);
}

Problem gradients(bool deterministic) {
  Problem p{.m = 35, .n = 33, .k = 70, .batch = 2, .d = {.type = DType::fp32, .ld = 41}};
  p.epilogue = {.scale_a = ScaleMode::vector, .scale_b = ScaleMode::tensor, .update = Update::add};
  p.deterministic = deterministic;
  return p;
}

/// To see it fail: leave the old D out of epilogue() in verify_check.cuh, or leave out may_stay.
TEST(verify_kernels, know_what_d_was_before_a_product_was_added_to_it) {
  for (const bool deterministic : {true, false})
    for (u64 seed = 0; seed < 3; ++seed) {
      const Problem p = gradients(deterministic);
      HostData exact(p, exact_data(p, seed));
      EXPECT_EQ(exact.check(Judge::unwritten).wrong, 0u);
      exact.multiply();
      const CheckLog log = exact.check(Judge::exact);
      EXPECT_EQ(log.wrong + log.damaged_chunks + log.inexact_inputs, 0u) << "seed " << seed;
      EXPECT_GT(exact.check(Judge::unwritten).wrong, 0u);
      HostData real(p, real_data(p, seed));
      real.multiply();
      EXPECT_EQ(real.check(Judge::bounded).wrong, 0u);
    }
}

TEST(verify_kernels, find_a_product_added_never_or_twice_or_over_what_was_there) {
  const Problem p = gradients(true);
  const u64 outputs = static_cast<u64>(p.m * p.n * p.batch);
  HostData never(p, exact_data(p, 1)), twice(p, exact_data(p, 1)), overwritten(p, exact_data(p, 1));
  CheckLog log = never.check(Judge::exact);
  EXPECT_GT(log.wrong, outputs * 9 / 10);  // some sums are 0 by chance
  EXPECT_EQ(log.unwritten, log.wrong);
  twice.multiply();
  twice.multiply();
  log = twice.check(Judge::exact);
  EXPECT_GT(log.wrong, outputs * 9 / 10);
  EXPECT_EQ(log.unwritten, 0u);
  overwritten.problem.epilogue.update = Update::set;
  overwritten.multiply();
  overwritten.problem.epilogue.update = Update::add;
  EXPECT_GT(overwritten.check(Judge::exact).wrong, outputs * 9 / 10);
}

TEST(verify_kernels, nan_and_infinity_must_come_out_where_they_belong) {
  Problem p{.m = 33, .n = 33, .k = 64, .d = {.type = DType::fp32}};
  DataSpec spec = exact_data(p, 1);
  spec.a.kind = Fill::specials;
  HostData data(p, spec);
  data.multiply();
  EXPECT_EQ(data.check(Judge::exact).wrong, 0u);
  float* d = reinterpret_cast<float*>(data.operand(kRegionD));
  i64 nan_at = 0;
  while (nan_at < p.m * p.n && d[nan_at] == d[nan_at]) ++nan_at;
  ASSERT_LT(nan_at, p.m * p.n) << "this seed has a NaN";
  d[nan_at] = 0.0f;
  EXPECT_EQ(data.check(Judge::exact).wrong, 1u);
}

TEST(verify_kernels, a_sample_holds_all_edges_and_some_of_the_inside) {
  const Problem p{.m = 320, .n = 320, .k = 8};
  HostData data(p, exact_data(p, 1));
  data.multiply();
  const CheckLog log = data.check(Judge::exact, 4);
  const u64 edge_blocks = 36, block = kCheckTile * kCheckTile;
  EXPECT_GT(log.checked, (edge_blocks + 4) * block);
  EXPECT_LT(log.checked, (edge_blocks + 40) * block);
}

}  // namespace
}  // namespace sluice
