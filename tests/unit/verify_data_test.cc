// SPDX-License-Identifier: Apache-2.0
// The layout of the operands in one block, and that exact_data is exact: its largest sums are computed again.
// To see it fail: raise fp32_limit to 2^21 in exact_data, or leave kGuardBytes out of a region's span.
#include <gtest/gtest.h>

#include <cmath>

#include <sluice/check/verify_data.h>
#include <sluice/kernels/verify_arith.h>
#include <sluice/reference/gemm.h>

namespace sluice {
namespace {

Problem small_problem() {
  return {.m = 17,
          .n = 33,
          .k = 65,
          .batch = 3,
          .a = {.ld = 72},
          .b = {.ld = 80, .batch_stride = 8000},
          .epilogue = {.scale_a = ScaleMode::vector, .bias = Bias::column, .residual = true}};
}

TEST(verify_data, regions_do_not_overlap_and_hold_their_elements_between_guards) {
  const auto layout = lay_out(small_problem(), {.element_shift = 1, .d_shift = 3});
  ASSERT_TRUE(layout);
  i64 end = 0;
  for (int i = 0; i < kRegionCount; ++i) {
    const Region& r = layout->regions[i];
    EXPECT_EQ(layout->region_begin[i], end);
    EXPECT_EQ(r.span_bytes % kChunkBytes, 0);
    EXPECT_GE(r.element_begin, kGuardBytes);
    const bool empty = r.inner * r.outer * r.batch == 0;
    const i64 extent = empty ? 0 : (r.batch - 1) * r.batch_stride + (r.outer - 1) * r.ld + r.inner;
    EXPECT_GE(r.span_bytes, r.element_begin + extent * bytes_of(r.type) + kGuardBytes);
    end += r.span_bytes;
  }
  EXPECT_EQ(layout->bytes, end);
  EXPECT_EQ(layout->regions[kRegionD].element_begin, kGuardBytes + 3 * 2);
  EXPECT_EQ(layout->regions[5].inner, 17) << "one scale a row";
  EXPECT_EQ(layout->regions[6].inner, 0) << "no scale_b";
}

TEST(verify_data, refuses_matrices_that_overlap) {
  Problem p = small_problem();
  p.b.batch_stride = 100;
  const auto overlap = lay_out(p, {});
  ASSERT_FALSE(overlap);
  EXPECT_EQ(overlap.error().code, ErrorCode::invalid_stride);
  p = small_problem();
  p.d.ld = 32;
  EXPECT_FALSE(lay_out(p, {})) << "a row of D is 33 long";
  p = small_problem();
  p.m = -1;
  EXPECT_EQ(lay_out(p, {}).error().code, ErrorCode::invalid_size);
}

Problem grouped(i64 rows, i64 groups, Groups kind) {
  Problem p{.m = rows, .n = 64, .k = 64, .batch = groups};
  p.groups = kind;
  return p;
}

TEST(verify_data, tables_spread_rows_as_the_routing_says) {
  for (const Groups kind : {Groups{GroupKind::ends, 1}, {GroupKind::ends, 16}, {GroupKind::counts, 40}})
    for (const i64 rows : {0, 1, 40, 640, 1000})
      for (const i64 groups : {1, 3, 16, 128}) {
        const Problem p = grouped(rows, groups, kind);
        std::vector<i64> used(4);
        for (const Routing routing : {Routing::balanced, Routing::skewed, Routing::one, Routing::any}) {
          const std::vector<int> table = table_of(p, routing, 7);
          ASSERT_EQ(static_cast<i64>(table.size()), groups);
          i64 all = 0, largest = 0, with_rows = 0;
          for (const GroupRows& each : rows_of_groups(p, table.data())) {
            all += each.end - each.begin;
            largest = std::max<i64>(largest, each.end - each.begin);
            with_rows += each.end > each.begin;
          }
          used[static_cast<size_t>(routing)] = all;
          if (routing == Routing::one) {
            EXPECT_LE(with_rows, 1);
          }
          if (kind == Groups{GroupKind::ends, 1} && routing != Routing::any) {
            EXPECT_EQ(all, rows);
          }
          if (kind == Groups{GroupKind::ends, 1} && routing == Routing::balanced) {
            EXPECT_LE(largest, ceil_div(rows, groups) + 1);
          }
          if (kind == Groups{GroupKind::ends, 1} && routing == Routing::skewed && rows == 1000 &&
              groups == 16) {
            EXPECT_GE(largest, 200) << "two of sixteen groups have half of the rows";
          }
        }
        if (rows == 640 && groups <= 16 && (kind.kind == GroupKind::ends || groups == 16)) {
          EXPECT_GE(used[0], rows / 3) << "rows that pad are the fewer ones";
        }
      }
  EXPECT_TRUE(table_of(small_problem(), Routing::balanced, 7).empty());
}

TEST(verify_data, a_table_lies_beside_the_operands_of_groups) {
  Problem p = grouped(96, 8, {GroupKind::ends, 1});
  p.epilogue.bias = Bias::column;
  p.epilogue.scale_b = ScaleMode::vector;
  const auto layout = lay_out(p, {});
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->regions[kRegionGroups].inner, 8);
  EXPECT_EQ(layout->regions[0].batch, 1) << "A is one matrix";
  EXPECT_EQ(layout->regions[1].batch, 8);
  EXPECT_EQ(layout->regions[kRegionD].batch, 1);
  EXPECT_EQ(layout->regions[4].inner, 8 * 64) << "a bias for each group";
  EXPECT_EQ(layout->regions[6].inner, 8 * 64);
}

TEST(verify_data, empty_problems_have_guards_only) {
  for (Problem p :
       {Problem{.m = 0, .n = 8, .k = 8}, Problem{.m = 8, .n = 0, .k = 8}, Problem{.m = 8, .n = 8, .k = 0}}) {
    const auto layout = lay_out(p, {});
    ASSERT_TRUE(layout);
    EXPECT_GE(layout->bytes, kRegionCount * 2 * kGuardBytes);
  }
}

Problem fuzzed(u64 seed) {
  const DType inputs[] = {DType::bf16, DType::fp16, DType::e4m3, DType::e5m2};
  const DType outputs[] = {DType::bf16, DType::fp16, DType::fp32, DType::e4m3};
  const i64 ks[] = {1, 15, 64, 129, 500, 2048, 20'000};
  const auto pick = [&](int field, int count) { return verify::pick(verify::hash(seed, field), count); };
  Problem p{.m = 8, .n = 8, .k = ks[pick(0, 7)]};
  p.a.type = inputs[pick(1, 4)];
  p.b.type = is_fp8(p.a.type) ? inputs[2 + pick(2, 2)] : p.a.type;
  p.d.type = outputs[pick(3, 4)];
  p.accumulate = pick(4, 2) != 0 ? Accumulate::promoted : Accumulate::fast;
  p.epilogue.scale_a = static_cast<ScaleMode>(pick(5, 3));
  p.epilogue.scale_b = static_cast<ScaleMode>(pick(6, 3));
  p.epilogue.residual = pick(7, 2) != 0;
  p.epilogue.bias = pick(8, 2) != 0 ? Bias::column : Bias::none;
  return p;
}

TEST(verify_data, exact_data_keep_every_sum_exact) {
  for (u64 seed = 0; seed < 3'000; ++seed) {
    const Problem p = fuzzed(seed);
    const DataSpec spec = exact_data(p, seed);
    const bool fp8 = is_fp8(p.a.type), promoted = fp8 && p.accumulate == Accumulate::promoted;
    // The exact sums of the first row for this seed, with the densities of A and B.
    double sum = 0, block = 0, worst_block = 0;
    for (i64 i = 0; i < p.k; ++i) {
      const double a = verify::fill_value(spec.a, seed + 1, i), b = verify::fill_value(spec.b, seed + 2, i);
      ASSERT_EQ(verify::decode(p.a.type, verify::encode(p.a.type, a)), a) << "A itself must be exact";
      ASSERT_EQ(verify::decode(p.b.type, verify::encode(p.b.type, b)), b);
      if (i % 128 == 0) block = 0;
      sum += std::fabs(a * b);
      block += std::fabs(a * b);
      worst_block = std::fmax(worst_block, block);
    }
    const double limit = verify::exact_sum_limit(p.a.type);
    if (promoted) {
      ASSERT_LE(worst_block, limit);
      ASSERT_LE(sum, verify::exact_sum_limit(DType::bf16));
    } else {
      ASSERT_LE(sum, limit) << to_string(p);
    }
    const double largest_scale = std::fabs(spec.alpha) * (p.epilogue.scale_a != ScaleMode::none ? 2 : 1) *
                                 (p.epilogue.scale_b != ScaleMode::none ? 2 : 1);
    const bool added = p.epilogue.residual || p.epilogue.bias != Bias::none;
    if (added) {
      const double worst =
          spec.a.density == 256 ? static_cast<double>(p.k) * spec.a.magnitude * spec.b.magnitude : sum;
      ASSERT_LT(worst * largest_scale * 2, 0x1p24) << "in units of half, the finest of beta * C";
    }
    if (spec.beta == 0.0f) {
      ASSERT_EQ(spec.c.kind, Fill::poison);
    }
  }
}

/// Returns a problem of any type, gated or with C and bias, with k up to 4 M.
Problem long_problem(u64 seed) {
  Problem p = fuzzed(seed);
  const double exponent = static_cast<double>(verify::hash(seed, 0x41) >> 11) * 0x1p-53 * 22;
  p.k = static_cast<i64>(std::exp2(exponent));
  if (verify::hash(seed, 0x42) % 3 == 0) p.epilogue.gated = true, p.epilogue.residual = false;
  return p;
}

// To see it fail: leave out halvings. A gated product with k = 300,000 then has sums above 2^11.
TEST(verify_data, exact_data_keep_every_sum_exact_however_long_k_is) {
  int halved = 0;
  for (u64 seed = 0; seed < 400; ++seed) {
    const Problem p = long_problem(seed);
    const DataSpec spec = exact_data(p, seed);
    EXPECT_TRUE(holds_exact_sums(p, spec)) << to_string(p);
    halved += spec.a.halvings > 0;
    const bool promoted = is_promoted(p);
    double sum = 0, block = 0, worst_block = 0, nonzero = 0;
    for (i64 i = 0; i < p.k; ++i) {
      const double a = verify::fill_value(spec.a, seed + 1, static_cast<u64>(i));
      const double b = verify::fill_value(spec.b, seed + 2, static_cast<u64>(i));
      if (i % kScaleBlock == 0) block = 0;
      sum += std::fabs(a * b);
      block += std::fabs(a * b);
      nonzero += a != 0;
      worst_block = std::fmax(worst_block, block);
    }
    const double limit = verify::exact_sum_limit(p.a.type);
    ASSERT_LE(promoted ? worst_block : sum, limit) << to_string(p);
    ASSERT_LE(sum, verify::exact_sum_limit(DType::bf16)) << to_string(p);
    if (p.k > 4096) {
      ASSERT_GE(nonzero, 16) << "an A of zeros tests nothing: " << to_string(p);
    }
    if (!p.epilogue.gated) continue;
    const double scale = std::fabs(spec.alpha) * (p.epilogue.scale_a != ScaleMode::none ? 2 : 1) *
                         (p.epilogue.scale_b != ScaleMode::none ? 2 : 1);
    const double half = scale * sum + (p.epilogue.bias != Bias::none ? spec.bias.magnitude : 0);
    ASSERT_LE(half * half, 0x1p24) << to_string(p);
  }
  EXPECT_GE(halved, 10);
}

TEST(verify_data, sums_that_may_be_inexact_are_known_before_they_are_made) {
  Problem p{.m = 64, .n = 64, .k = 4096};
  p.a.type = p.b.type = DType::e4m3;
  DataSpec spec = exact_data(p, 1);
  EXPECT_TRUE(holds_exact_sums(p, spec));
  spec.a.magnitude = spec.b.magnitude = 16;
  EXPECT_FALSE(holds_exact_sums(p, spec)) << "4096 * 256 is past 2^14";
  spec.alpha = 0;
  EXPECT_TRUE(holds_exact_sums(p, spec)) << "no sum is read";
  EXPECT_FALSE(holds_exact_sums(p, real_data(p, 1)));
}

TEST(verify_data, exact_data_vary_with_the_seed) {
  Problem p = fuzzed(1);
  p.epilogue.residual = true;
  bool negative_alpha = false, zero_beta = false, other_beta = false;
  for (u64 seed = 0; seed < 64; ++seed) {
    const DataSpec spec = exact_data(p, seed);
    negative_alpha |= spec.alpha < 0;
    zero_beta |= spec.beta == 0;
    other_beta |= spec.beta != 0;
  }
  EXPECT_TRUE(negative_alpha && zero_beta && other_beta);
}

TEST(verify_data, reports_name_the_place_and_the_values) {
  Comparison found{
      .checked = 100, .wrong = 1, .row_low = 3, .row_high = 3, .column_low = 9, .column_high = 9};
  found.examples.push_back({0, 3, 9, 1.5, 2.5, 0.0});
  const std::string text = describe(found);
  EXPECT_NE(text.find("rows 3..3, columns 9..9"), std::string::npos) << text;
  EXPECT_NE(text.find("expected 1.5, got 2.5"), std::string::npos) << text;
  EXPECT_EQ(found.verdict(), Verdict::wrong);
}

TEST(verify_data, a_comparison_of_inexact_data_is_neither_right_nor_wrong) {
  const auto verdict = [](const Comparison& found) { return found.verdict(); };
  EXPECT_EQ(verdict({.checked = 4}), Verdict::right);
  EXPECT_EQ(verdict({.checked = 4, .inexact_inputs = 1}), Verdict::not_judged);
  EXPECT_EQ(verdict({.checked = 4, .wrong = 1, .inexact_inputs = 1}), Verdict::wrong);
  EXPECT_EQ(verdict({.checked = 4, .damaged_chunks = 1, .inexact_inputs = 1}), Verdict::wrong);
}

}  // namespace
}  // namespace sluice
