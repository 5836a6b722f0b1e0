// SPDX-License-Identifier: Apache-2.0
// Block scales of A by columns, in the twin and in the reference: D has the bits that the same scales by rows
// give. Gaps between columns are NaN, so a value that is read there shows. To see it fail: let
// block_scale_a_index() forget the first row of a group by counts, or the gap. Scales of each column of B,
// too.
#include <algorithm>
#include <limits>

#include "operands.h"

namespace sluice::twin {
namespace {

struct Case {
  i64 m = 130, n = 200, k = 300, batch = 1;
  Groups groups{};
  std::vector<int> numbers{};
  i64 ld = 0;
  Epilogue epilogue{.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
};

Problem by_rows(const Case& c) {
  const DType d = writes_scales(c.epilogue) ? DType::e4m3 : DType::bf16;
  return {.m = c.m,
          .n = c.n,
          .k = c.k,
          .batch = c.numbers.empty() ? c.batch : static_cast<i64>(c.numbers.size()),
          .a = {.type = DType::e4m3},
          .b = {.type = DType::e4m3},
          .d = {.type = d},
          .epilogue = c.epilogue,
          .groups = c.groups};
}

/// Returns the scales of `rows`, which has them by rows, as `columns` has them. Written without
/// block_scale_a_index(), so that the layout stands here once more.
std::vector<float> turned(const Operands& rows, const Problem& columns) {
  const Problem& p = rows.problem;
  const i64 blocks = scale_blocks(p.k);
  std::vector<float> scales(static_cast<size_t>(scale_a_count(columns)),
                            std::numeric_limits<float>::quiet_NaN());
  const bool counts = p.groups.kind == GroupKind::counts;
  const i64 matrices = counts || !has_groups(p) ? p.batch : 1, pitch = counts ? p.groups.pitch : p.m;
  for (i64 matrix = 0; matrix < matrices; ++matrix)
    for (i64 row = 0; row < pitch; ++row)
      for (i64 block = 0; block < blocks; ++block) {
        const i64 from = matrix * pitch + row;
        if (counts && from >= p.m) continue;
        scales[static_cast<size_t>((matrix * blocks + block) * columns.scale_a_ld + row)] =
            rows.scale_a[static_cast<size_t>(from * blocks + block)];
      }
  return scales;
}

Operands columns_of(const Operands& rows, i64 ld) {
  Operands columns = rows;
  columns.problem.scale_a_ld = ld;
  columns.scale_a = turned(rows, columns.problem);
  return columns;
}

void expect_the_bits_of_rows(const Case& c, const KernelConfig& config) {
  Operands rows = make_operands(by_rows(c));
  for (size_t i = 0; i < rows.scale_a.size(); ++i) rows.scale_a[i] = static_cast<float>(1 << i % 5) / 4;
  rows.groups = c.numbers;
  if (!c.numbers.empty()) poison_rows_of_no_group(rows);
  Operands columns = columns_of(rows, c.ld);
  reference_gemm(rows.problem, rows.buffers(rows.expected), 1.0f, 0.0f);
  reference_gemm(columns.problem, columns.buffers(columns.expected), 1.0f, 0.0f);
  EXPECT_EQ(columns.expected, rows.expected) << "the reference, " << to_string(columns.problem);
  const Plan plan = plan_of(columns.problem, config, 2);
  EXPECT_TRUE(plan.config.scale_a_columns);
  const auto report = run_on_host(plan, columns.buffers(columns.d), 1.0f, 0.0f, 42);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(columns.as_expected()) << to_string(columns.problem) << "\n" << to_string(config);
}

KernelConfig config(Schedule schedule, int rows, int columns, const ClusterShape& cluster = {}) {
  return {.schedule = schedule,
          .tile = {.m = rows, .n = columns},
          .stages = 3,
          .cluster = cluster,
          .promotes = true};
}
const std::vector<KernelConfig>& configs() {
  static const std::vector<KernelConfig> all = {config(Schedule::ping_pong, 64, 128, {1, 2}),
                                                config(Schedule::cooperative, 128, 256)};
  return all;
}

TEST(scale_columns, of_a_matrix_and_of_a_batch) {
  for (const KernelConfig& c : configs())
    for (const i64 gap : {0, 2, 9}) {
      expect_the_bits_of_rows({.ld = 130 + gap}, c);
      expect_the_bits_of_rows({.m = 70, .k = 128, .batch = 3, .ld = 70 + gap}, c);
      expect_the_bits_of_rows({.m = 1, .batch = 2, .ld = 1 + gap}, c);
    }
}

TEST(scale_columns, of_groups_that_share_a_matrix) {
  for (const KernelConfig& c : configs())
    for (const i64 gap : {0, 6})
      expect_the_bits_of_rows(
          {.m = 230, .groups = {GroupKind::ends, 8}, .numbers = {3, 60, 60, 190, 219}, .ld = 230 + gap}, c);
}

TEST(scale_columns, of_groups_with_a_matrix_each) {
  for (const KernelConfig& c : configs())
    for (const i64 gap : {0, 3}) {
      expect_the_bits_of_rows(
          {.m = 280, .groups = {GroupKind::counts, 70}, .numbers = {0, 70, 1, 65}, .ld = 70 + gap}, c);
      // The last group has fewer rows than the pitch, and one has none in A.
      expect_the_bits_of_rows(
          {.m = 150, .groups = {GroupKind::counts, 70}, .numbers = {70, 3, 70, 5}, .ld = 70 + gap}, c);
    }
}

TEST(scale_columns, beside_gates_scales_of_d_and_slices) {
  Case c{.m = 140, .n = 512, .ld = 144};
  c.epilogue.gated = true;
  c.epilogue.activation = Activation::silu;
  expect_the_bits_of_rows(c, config(Schedule::cooperative, 128, 256));
  c.epilogue.scale_d = ScaleMode::block;
  expect_the_bits_of_rows(c, config(Schedule::ping_pong, 64, 256));
  c.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block, .row_factors = true};
  expect_the_bits_of_rows(c, config(Schedule::cooperative, 128, 128, {1, 1, 2}));
}

// ---- scales of each column of B ----
Problem by_each_column(const Case& c) {
  Problem p = by_rows(c);
  p.epilogue.scale_b = ScaleMode::vector128;
  p.scale_a_ld = c.ld;
  return p;
}

/// Fills scales with powers of two, so that all sums are exact.
void fill_with_powers(std::vector<float>& scales) {
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(1 << i % 7) / 4;
}

/// In the twin, D has the bits of the reference, and with equal scales in each block those of block scales.
void expect_each_column(const Case& c, const KernelConfig& config) {
  Operands each = make_operands(by_each_column(c));
  const Problem& p = each.problem;
  fill_with_powers(each.scale_a);
  fill_with_powers(each.scale_b);
  reference_gemm(p, each.buffers(each.expected), 1.0f, 0.0f);
  const Plan plan = plan_of(p, config, 2);
  const auto report = run_on_host(plan, each.buffers(each.d), 1.0f, 0.0f, 42);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(each.as_expected()) << to_string(p) << "\n" << to_string(config);

  Operands blocks = each;
  blocks.problem.epilogue.scale_b = ScaleMode::block;
  blocks.scale_b.assign(static_cast<size_t>(scale_b_count(blocks.problem)), 0.0f);
  fill_with_powers(blocks.scale_b);
  const i64 n_blocks = scale_blocks(p.n), k_blocks = scale_blocks(p.k);
  for (i64 batch = 0; batch < p.batch; ++batch)
    for (i64 block = 0; block < k_blocks; ++block)
      for (i64 column = 0; column < p.n; ++column)
        each.scale_b[static_cast<size_t>((batch * k_blocks + block) * p.n + column)] =
            blocks.scale_b[static_cast<size_t>((batch * n_blocks + column / 128) * k_blocks + block)];
  reference_gemm(blocks.problem, blocks.buffers(blocks.expected), 1.0f, 0.0f);
  each.expected = blocks.expected;
  ASSERT_TRUE(run_on_host(plan, each.buffers(each.d), 1.0f, 0.0f, 42).ok());
  EXPECT_TRUE(each.as_expected()) << "of whole blocks, " << to_string(p);
}

TEST(scale_columns, of_each_column_of_b) {
  for (const KernelConfig& c : configs()) {
    expect_each_column({.ld = 133}, c);
    expect_each_column({.m = 70, .n = 33, .k = 128, .batch = 3, .ld = 70}, c);
    expect_each_column({.m = 1, .n = 1, .k = 700, .batch = 2, .ld = 1}, c);
  }
  expect_each_column({.ld = 130}, config(Schedule::cooperative, 128, 160));
  expect_each_column({.ld = 130}, config(Schedule::ping_pong, 128, 96));
  expect_each_column({.k = 520, .ld = 130}, config(Schedule::cooperative, 128, 128, {1, 1, 2}));
}

// ---- planted bugs: the twin sees other operands than the reference ----
/// Bug: the scales of the next column.
TEST(scale_columns, a_neighbours_scale_is_noticed) {
  Operands each = make_operands(by_each_column({.ld = 130}));
  fill_with_powers(each.scale_a);
  fill_with_powers(each.scale_b);
  reference_gemm(each.problem, each.buffers(each.expected), 1.0f, 0.0f);
  Operands shifted = each;
  std::rotate(shifted.scale_b.begin(), shifted.scale_b.begin() + 1, shifted.scale_b.end());
  ASSERT_TRUE(
      run_on_host(plan_of(each.problem, configs()[1], 2), shifted.buffers(shifted.d), 1.0f, 0.0f, 1).ok());
  EXPECT_NE(shifted.d, each.expected);
}

/// Bug: the scales of a neighbouring column, as a wrong distance would give.
TEST(scale_columns, a_wrong_distance_is_noticed) {
  Operands rows = make_operands(by_rows({}));
  for (size_t i = 0; i < rows.scale_a.size(); ++i) rows.scale_a[i] = static_cast<float>(1 << i % 5) / 4;
  Operands columns = columns_of(rows, 130), wide = columns_of(rows, 132);
  reference_gemm(rows.problem, rows.buffers(rows.expected), 1.0f, 0.0f);
  HostBuffers seen = columns.buffers(columns.d);
  seen.scale_a = wide.scale_a.data();
  ASSERT_TRUE(run_on_host(plan_of(columns.problem, configs()[0], 2), seen, 1.0f, 0.0f, 1).ok());
  EXPECT_NE(columns.d, rows.expected);
}

}  // namespace
}  // namespace sluice::twin
