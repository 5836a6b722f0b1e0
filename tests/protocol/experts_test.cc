// SPDX-License-Identifier: Apache-2.0
// The products of experts in the twin, with real numbers against the reference, bit by bit. They have gates
// with block scales, block scales of D that the kernel computes, and factors of rows. D, its scales, and rows
// of A of no group start as NaN. To see it fail: let scale_part_of() ignore the side, or give the gate's
// block to both sides in scale_block_of().
#include <algorithm>
#include <cmath>
#include <random>

#include <sluice/spec/smem_layout.h>

#include "operands.h"

namespace sluice::twin {
namespace {

constexpr Epilogue kBlocks{.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};

Epilogue swiglu(Activation activation = Activation::silu) {
  Epilogue e = kBlocks;
  e.activation = activation;
  e.gated = true;
  return e;
}
Epilogue quantised(Epilogue e) {
  e.scale_d = ScaleMode::block;
  return e;
}
Epilogue routed(Epilogue e) {
  e.row_factors = true;
  return e;
}

Problem product(i64 m, i64 n, i64 k, const Epilogue& epilogue, DType out = DType::bf16) {
  const DType d = writes_scales(epilogue) ? DType::e4m3 : out;
  return {.m = m,
          .n = n,
          .k = k,
          .a = {.type = DType::e4m3},
          .b = {.type = DType::e4m3},
          .d = {.type = d},
          .epilogue = epilogue};
}

KernelConfig config(Schedule schedule, int rows, int columns, const ClusterShape& cluster = {}) {
  return {.schedule = schedule,
          .tile = {.m = rows, .n = columns},
          .stages = 3,
          .cluster = cluster,
          .promotes = true};
}
constexpr Schedule kPingPong = Schedule::ping_pong, kCooperative = Schedule::cooperative;

/// Computes D and its scales in the twin and by the reference.
void compute(Operands& o, const KernelConfig& given, int clusters) {
  const Plan plan = plan_of(o.problem, given, clusters);
  const auto report = run_on_host(plan, o.buffers(o.d), 1.0f, 1.0f, 42);
  ASSERT_TRUE(report.ok()) << report.error().message;
  reference_gemm(o.problem, o.buffers(o.expected), 1.0f, 1.0f);
}
void expect_equals_reference(const Problem& problem, const KernelConfig& given,
                             const std::vector<int>& groups = {}) {
  Operands o = make_operands(problem);
  o.groups = groups;
  if (!groups.empty()) poison_rows_of_no_group(o);
  compute(o, given, 2);
  EXPECT_TRUE(o.as_expected()) << to_string(problem) << "\n" << to_string(given);
}
Problem grouped(Problem problem, const std::vector<int>& numbers,
                const Groups& groups = {GroupKind::ends, 1}) {
  problem.groups = groups;
  problem.batch = static_cast<i64>(numbers.size());
  return problem;
}

/// Each column of a tile takes the block of the row of B that it multiplies, in tiles of every width.
TEST(experts, every_column_finds_its_block) {
  for (const bool gated : {false, true})
    for (int width = gated ? 64 : 32; width <= 256; width += gated ? 64 : 32)
      for (const int n : {256, 512, 1280}) {
        KernelConfig c = config(kCooperative, 128, width);
        c.epilogue = kBlocks;
        c.epilogue.gated = gated;
        ASSERT_LE(scale_parts(c), kMaxScaleParts);
        for (int first = 0; first < n; first += width)
          for (int column = 0; column < std::min(width, n - first); ++column) {
            const i64 row = gated ? gated_row(first + column, n) : first + column;
            const int part = scale_part_of(c, column);
            ASSERT_LT(part, scale_parts(c));
            ASSERT_EQ(scale_block_of(c, n, first, part), row / kScaleBlock)
                << n << ", " << width << ": column " << first + column;
          }
        for (int part = 0; part < 32; ++part)  // lanes without a part read nothing outside
          ASSERT_LT(scale_block_of(c, n, n - 1, part), n / kScaleBlock);
      }
}

TEST(experts, gates_take_the_scales_of_both_halves) {
  Problem p = product(70, 512, 200, swiglu());
  for (const int width : {64, 128, 192, 256}) {
    expect_equals_reference(p, config(kCooperative, 128, width));
    expect_equals_reference(p, config(kPingPong, 64, width));
  }
  p = product(140, 256, 128, swiglu());
  p.batch = 2;
  expect_equals_reference(p, config(kCooperative, 128, 256, {2, 1}));
  expect_equals_reference(p, config(kPingPong, 128, 128, {1, 2}));
  expect_equals_reference(p, config(kCooperative, 128, 128, {1, 1, 2}));
  p.epilogue.bias = Bias::column;
  p.epilogue.activation = Activation::gelu;
  KernelConfig direct = config(kPingPong, 64, 128);
  direct.store = StorePath::direct;
  expect_equals_reference(p, direct);
}

/// Sums of a few hundred are far outside of -7..7, and biases move both halves.
TEST(experts, gates_of_gpt_oss_are_clamped) {
  for (const bool blocks : {false, true})
    for (const bool quantises : {false, true}) {
      Problem p = product(140, 512, 200, swiglu(Activation::clamped_swiglu));
      p.epilogue.bias = Bias::column;
      p.epilogue.bias_type = DType::fp32;
      if (quantises) p.epilogue = quantised(p.epilogue), p.d.type = DType::e4m3;
      if (!blocks) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::none;
      const int width = quantises ? 256 : 128;
      expect_equals_reference(p, config(kCooperative, 128, width));
      expect_equals_reference(grouped(p, {3, 70, 70, 139}), config(kPingPong, 64, width), {3, 70, 70, 139});
    }
  // The reference by its own formula: one k, weights 1 and 2, a bias of halves.
  Problem p{.m = 3, .n = 16, .k = 1, .d = {.type = DType::fp32}};
  p.epilogue = {.bias = Bias::column,
                .bias_type = DType::fp32,
                .activation = Activation::clamped_swiglu,
                .gated = true};
  std::vector<u8> a(6), b(32), d(3 * 8 * 4);
  const double rows[] = {2, -3, 9};
  for (i64 row = 0; row < 3; ++row) store_element(DType::bf16, a.data(), row, rows[row]);
  for (i64 column = 0; column < 16; ++column)
    store_element(DType::bf16, b.data(), column,
                  column < 8 ? 1.0 : 2.0 - static_cast<double>(column % 2) * 4);
  const std::vector<float> bias(16, 0.5f);
  reference_gemm(p, {.a = a.data(), .b = b.data(), .d = d.data(), .bias = bias.data()}, 1.0f, 0.0f);
  for (i64 row = 0; row < 3; ++row)
    for (i64 column = 0; column < 8; ++column) {
      const double gate = std::min(rows[row] + 0.5, 7.0);
      const double up = std::clamp(rows[row] * (column % 2 ? -2 : 2) + 0.5, -7.0, 7.0);
      EXPECT_NEAR(load_element(DType::fp32, d.data(), row * 8 + column),
                  (up + 1) * gate / (1 + std::exp(-1.702 * gate)), 1e-5)
          << row << ", " << column;
    }
}

TEST(experts, scales_of_d_are_those_of_the_quantiser) {
  for (const i64 m : {1, 64, 130})
    for (const i64 n : {16, 144, 272}) {
      const Problem p = product(m, n, 136, quantised(kBlocks));
      expect_equals_reference(p, config(kCooperative, 128, n == 144 ? 128 : 256));
      expect_equals_reference(p, config(kPingPong, 64, n == 144 ? 256 : 128, {1, 2}));
    }
  Problem odd = product(70, 133, 128, quantised(kBlocks));
  odd.batch = 2;
  KernelConfig direct = config(kCooperative, 128, 256);
  direct.store = StorePath::direct;
  expect_equals_reference(odd, direct);
  odd.epilogue = quantised({.scale_a = ScaleMode::vector,
                            .scale_b = ScaleMode::vector,
                            .bias = Bias::column,
                            .activation = Activation::relu,
                            .residual = true});
  direct.tile.n = 128;
  expect_equals_reference(odd, direct);
  odd.a.type = odd.b.type = DType::bf16;
  direct.promotes = false;
  expect_equals_reference(odd, direct);
}

TEST(experts, gated_results_have_scales) {
  for (const i64 n : {256, 512}) {
    const Problem p = product(150, n, 140, quantised(swiglu()));
    for (const ClusterShape cluster : {ClusterShape{1, 1}, {1, 2}}) {
      expect_equals_reference(p, config(kCooperative, 128, 256, cluster));
      expect_equals_reference(p, config(kPingPong, 64, 256, cluster));
    }
  }
  // Without block scales of A and B, a half has any whole number of groups of 8 rows.
  Problem p = product(70, 352, 200, quantised({.activation = Activation::relu, .gated = true}));
  expect_equals_reference(p, config(kPingPong, 64, 256));
}

TEST(experts, factors_of_rows_multiply_the_result) {
  for (const StorePath store : {StorePath::tma, StorePath::direct})
    for (const Epilogue& e : {kBlocks, swiglu(), swiglu(Activation::relu),
                              Epilogue{.scale_b = ScaleMode::vector,
                              .bias = Bias::column,
                              .activation = Activation::relu,
                              .residual = true}}) {
      KernelConfig c = config(kCooperative, 128, 128);
      c.store = store;
      Problem p = product(140, 256, 128, routed(e));
      p.batch = 2;
      expect_equals_reference(p, c);
      expect_equals_reference(product(140, 256, 128, routed(e), DType::fp32), config(kPingPong, 128, 64));
    }
  expect_equals_reference(product(140, 256, 128, routed(quantised(swiglu()))),
                          config(kCooperative, 128, 256));
}

/// Both products of a layer of experts. What no group has stays NaN, in D and in its scales.
TEST(experts, of_groups_write_their_rows_alone) {
  const std::vector<int> ends{3, 70, 70, 200, 219};
  for (const StorePath store : {StorePath::tma, StorePath::direct})
    for (const Schedule schedule : {kPingPong, kCooperative}) {
      KernelConfig wide = config(schedule, schedule == kPingPong ? 64 : 128, 256);
      wide.store = store;
      expect_equals_reference(grouped(product(230, 256, 140, quantised(swiglu())), ends), wide, ends);
      expect_equals_reference(grouped(product(230, 272, 128, quantised(kBlocks)), ends), wide, ends);
      KernelConfig narrow = config(schedule, schedule == kPingPong ? 64 : 128, 128);
      narrow.store = store;
      expect_equals_reference(grouped(product(230, 200, 130, routed(kBlocks)), ends), narrow, ends);
      const std::vector<int> counts{0, 100, 1, 65};
      expect_equals_reference(
          grouped(product(400, 256, 130, routed(quantised(swiglu()))), counts, {GroupKind::counts, 100}),
          wide, counts);
    }
}

TEST(experts, of_random_shapes_are_exact) {
  std::mt19937 random(11);
  const auto number = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Epilogue e = number(0, 1) ? kBlocks : Epilogue{.scale_a = ScaleMode::vector};
    e.gated = number(0, 1) == 1;
    e.activation = number(0, 1) ? Activation::silu : Activation::none;
    e.row_factors = number(0, 1) == 1;
    if (number(0, 2) != 0) e.scale_d = ScaleMode::block;
    const bool whole = e.gated && is_block_scaled(e);
    const i64 n = whole ? 256 * number(1, 2) : 32 * number(1, 12);
    Problem p = product(number(1, 200), n, number(1, 300), e);
    std::vector<int> ends;
    if (number(0, 1))
      for (int end = 0, left = number(1, 6); left > 0; --left)
        ends.push_back(end += number(0, 2) == 0 ? 0 : number(1, 90));
    if (!ends.empty()) p = grouped(p, ends);
    KernelConfig c = config(number(0, 1) ? kPingPong : kCooperative, 128, number(0, 1) ? 256 : 128);
    if (c.schedule == kPingPong && (c.tile.n == 256 || number(0, 1))) c.tile.m = 64;
    if (writes_scales(e) && e.gated) {
      c.tile.n = 256;
      if (c.schedule == kPingPong) c.tile.m = 64;
    }
    if (number(0, 3) == 0) c.store = StorePath::direct;
    if (number(0, 3) == 0) c.cluster = {1, 2};
    // Without scales of D there is no room for a clamp beside as many accumulators.
    if (e.gated && (writes_scales(e) || c.tile.n == 128) && number(0, 3) == 0)
      p.epilogue.activation = Activation::clamped_swiglu;
    expect_equals_reference(p, c, ends);
  }
}

TEST(experts, a_product_reads_the_scales_of_the_one_before) {
  const Problem up = grouped(product(230, 512, 300, quantised(swiglu())), {3, 70});
  Problem down = grouped(product(230, 128, 256, kBlocks), {3, 70});
  EXPECT_EQ(scale_out_count(up), scale_a_count(down));
  for (const i64 row : {0, 1, 229})
    for (const i64 k : {0, 127, 128, 255})
      EXPECT_EQ(scale_out_index(up, 1, row, k), block_scale_a_index(down, 1, row, k));
  Problem batch = product(9, 200, 128, quantised(kBlocks)), next = product(9, 64, 200, kBlocks);
  batch.batch = next.batch = 3;
  EXPECT_EQ(scale_out_count(batch), scale_a_count(next));
  EXPECT_EQ(scale_out_index(batch, 2, 8, 199), block_scale_a_index(next, 2, 8, 199));
}

// ---- planted bugs: the twin sees other operands than the reference ----
/// Bug: "up" is multiplied by the gate's block scales.
TEST(experts, one_half_for_both_is_noticed) {
  Operands o = make_operands(product(100, 512, 256, swiglu()));
  const i64 k_blocks = scale_blocks(o.problem.k), half = scale_blocks(o.problem.n) / 2 * k_blocks;
  for (i64 i = 0; i < half; ++i) o.scale_b[static_cast<size_t>(i)] *= 2;
  std::vector<float> other = o.scale_b;
  std::copy_n(other.begin(), half, other.begin() + half);
  HostBuffers seen = o.buffers(o.d);
  seen.scale_b = other.data();
  const Plan plan = plan_of(o.problem, config(kCooperative, 128, 256), 2);
  ASSERT_TRUE(run_on_host(plan, seen, 1.0f, 0.0f, 1).ok());
  reference_gemm(o.problem, o.buffers(o.expected), 1.0f, 0.0f);
  EXPECT_FALSE(o.as_expected());
}
/// Bug: a group's last tile also writes the scales of the next rows.
TEST(experts, a_scale_behind_a_group_is_noticed) {
  Operands o = make_operands(grouped(product(100, 256, 128, quantised(kBlocks)), {40, 60}));
  o.groups = {40, 60};
  const std::vector<int> longer{40, 61};
  HostBuffers seen = o.buffers(o.d);
  seen.groups = longer.data();
  const Plan plan = plan_of(o.problem, config(kPingPong, 64, 128), 2);
  ASSERT_TRUE(run_on_host(plan, seen, 1.0f, 0.0f, 1).ok());
  reference_gemm(o.problem, o.buffers(o.expected), 1.0f, 0.0f);
  o.d = o.expected;  // only the scales count
  EXPECT_FALSE(o.as_expected());
}
/// Bug: a row takes the factor of the row below it.
TEST(experts, a_factor_of_another_row_is_noticed) {
  Operands o = make_operands(product(100, 256, 128, routed(kBlocks)));
  std::vector<float> shifted(o.row_factors.begin() + 1, o.row_factors.end());
  shifted.push_back(0);
  HostBuffers seen = o.buffers(o.d);
  seen.row_factors = shifted.data();
  const Plan plan = plan_of(o.problem, config(kPingPong, 64, 128), 2);
  ASSERT_TRUE(run_on_host(plan, seen, 1.0f, 0.0f, 1).ok());
  reference_gemm(o.problem, o.buffers(o.expected), 1.0f, 0.0f);
  EXPECT_FALSE(o.as_expected());
}

TEST(experts, missing_buffers_are_named) {
  Operands o = make_operands(product(64, 256, 128, routed(quantised(kBlocks))));
  const Plan plan = plan_of(o.problem, config(kPingPong, 64, 128), 1);
  for (const bool scales : {true, false}) {
    HostBuffers buffers = o.buffers(o.d);
    if (scales)
      buffers.scale_out = nullptr;
    else
      buffers.row_factors = nullptr;
    const auto refused = run_on_host(plan, buffers, 1.0f, 0.0f, 1);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find(scales ? "scale_out" : "row_factors"), std::string::npos);
  }
}

}  // namespace
}  // namespace sluice::twin
