// SPDX-License-Identifier: Apache-2.0
// The planner's packed kernels compile for Hopper without spills: a few problems for each format. To see it
// fail: let estimate_registers() return 0; then 12 and 16 warps are chosen.
#include <sluice/plan/text/units.h>

#include <gtest/gtest.h>

#include <set>

#include <sluice/plan/packed/packed_cost_model.h>
#include <sluice/run/jit/compiler.h>

#include "packed_formats.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

/// Returns the allowed bytes of spills. With four warpgroups a thread has 96 registers. From 32 e4m3 tokens
/// on, a few words spill, which is faster than fewer warpgroups (docs/findings/few-bit-strip.md).
int spared_bytes(const KernelConfig& config) {
  if (config.schedule != Schedule::strip || config.a != DType::e4m3 || config.tile.m < 32) return 0;
  return math_groups(strip_of(config)) == kStripMostGroups ? 40 : 0;
}

void expect_problem_to_compile(const Problem& problem, const PlanOverrides& overrides = {}) {
  static std::set<std::string> seen;
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  const Result<Plan> plan = gemm::plan(problem, DeviceInfo{}, overrides);
  ASSERT_TRUE(plan) << plan.error().message;
  for (const std::string& unit : unit_texts(plan->config)) {
    if (!seen.insert(unit).second) continue;
    const auto cubin = (*compiler)->compile(unit);
    ASSERT_TRUE(cubin) << cubin.error().message;
    EXPECT_LE(cubin->report.spill_bytes, spared_bytes(plan->config))
        << short_name(plan->config) << ": " << cubin->report.registers << " registers";
    EXPECT_LE(cubin->report.stack_bytes, spared_bytes(plan->config)) << unit;
    EXPECT_EQ(cubin->report.log, "") << unit;
  }
}

void expect_to_compile(const PackedProblem& problem, const PlanOverrides& overrides = {}) {
  expect_problem_to_compile(problem, overrides);
}

TEST(packed_units, of_the_bars_compile_without_spills) {
  for (const int group : {64, 128})
    for (const i64 m : {1, 16, 32})
      for (const auto& [n, k] : {std::pair<i64, i64>{4096, 4096}, {28672, 4096}, {1280, 8192}, {3584, 8192}})
        expect_to_compile({.m = m, .n = n, .k = k, .weights = {.group = group}});
}

TEST(packed_units, of_groups_compile_without_spills) {
  for (const i64 rows : {8, 256, 4096})
    for (const bool gated : {false, true})
      for (const WeightType type : {WeightType::uint4, WeightType::e2m1}) {
        const bool mx = type == WeightType::e2m1;
        Problem p = PackedProblem{
            .m = rows,
            .n = 1536,
            .k = 2048,
            .weights = {.type = type, .group = mx ? 32 : 128, .scale = mx ? DType::e8m0 : DType::bf16},
            .bias = Bias::column,
            .activation = gated ? Activation::silu : Activation::none,
            .gated = gated};
        p.batch = 128, p.groups.kind = GroupKind::ends;
        expect_problem_to_compile(p);
      }
}

/// Covers the norms and residuals that the narrow kernel fuses, and gated outputs.
TEST(packed_units, with_norms_residuals_and_gates_compile_without_spills) {
  for (const i64 m : {1, 4, 8, 16, 64}) {
    for (const bool norm : {false, true}) {
      if (norm && m > kNormTokens) continue;
      expect_to_compile({.m = m,
                         .n = 4096,
                         .k = 4096,
                         .x = DType::bf16,
                         .d = DType::bf16,
                         .norm_a = norm,
                         .residual = true});
      expect_to_compile({.m = m,
                         .n = 28672,
                         .k = 4096,
                         .x = DType::bf16,
                         .d = DType::bf16,
                         .activation = Activation::silu,
                         .gated = true,
                         .norm_a = norm});
    }
    expect_to_compile({.m = m,
                       .n = 28672,
                       .k = 4096,
                       .x = DType::e4m3,
                       .scale_x = ScaleMode::tensor,
                       .d = DType::e4m3,
                       .weights = {.order = FragmentOrder::byte},
                       .activation = Activation::silu,
                       .gated = true,
                       .scale_d = ScaleMode::tensor});
  }
}

TEST(packed_units, of_every_format_compile_without_spills) {
  int taken = 0;
  for (const WeightFormat& format : test::all_formats()) {
    if (format.order != FragmentOrder::half) continue;
    const i64 tokens[] = {1, 16, 32};
    const DType x = taken % 2 == 0 ? DType::bf16 : DType::fp16;
    expect_to_compile({.m = tokens[taken % 3], .n = 4096, .k = 4096, .x = x, .d = x, .weights = format});
    ++taken;
  }
  EXPECT_GE(taken, 24);
}

TEST(packed_units, of_mxfp4_compile_without_spills) {
  for (const i64 m : {1, 4, 8, 16, 32, 64, 128, 300})
    for (const DType x : {DType::bf16, DType::fp16})
      if (x == DType::bf16 || m % 3 == 1)
        expect_to_compile({.m = m, .n = 5760, .k = 2880, .x = x, .d = x, .weights = kMxfp4});
  expect_to_compile({.m = 8, .n = 2880, .k = 2880, .x = DType::bf16, .weights = kMxfp4, .norm_a = true});
}

TEST(packed_units, gated_compile_without_spills) {
  int taken = 0;
  for (const WeightFormat& format : test::all_formats()) {
    if (format.order != FragmentOrder::half) continue;
    const i64 tokens[] = {1, 16, 32, 64};
    PackedProblem p{.m = tokens[taken % 4],
                    .n = 7168,
                    .k = 4096,
                    .x = taken % 3 == 0 ? DType::fp16 : DType::bf16,
                    .d = DType::bf16,
                    .weights = format,
                    .activation = Activation::silu,
                    .gated = true};
    if (taken++ % 3 == 0) expect_to_compile(p);
  }
  EXPECT_GE(taken, 24);
  NarrowConfig plain, gated;
  gated.gated = true;
  EXPECT_EQ(unit_text(plain).find("gated"), std::string::npos) << "its cubins are those of before";
  EXPECT_NE(unit_text(plain), unit_text(gated));
}

// ptxas warns in its log if it serialises WGMMAs.
TEST(packed_units, for_many_tokens_compile_without_spills_or_serialised_products) {
  int taken = 0;
  for (const WeightFormat& format : test::all_formats()) {
    if (format.order != FragmentOrder::half) continue;
    const DType x = taken % 2 == 0 ? DType::bf16 : DType::fp16;
    const PackedProblem p{.m = 256, .n = 8192, .k = 8192, .x = x, .d = x, .weights = format};
    const PackedOverrides of[] = {{.tokens = 256, .cluster_n = 2},
                                  PackedOverrides{.tokens = 128, .cluster_n = 2},
                                  PackedOverrides{.tokens = 32, .cluster_n = 2},
                                  PackedOverrides{.tokens = 64, .cluster_n = 1},
                                  PackedOverrides{.tokens = 256, .cluster_n = 1}};
    if (taken % 4 == 0 || format == WeightFormat{.group = 64}) expect_to_compile(p, of[taken / 4 % 5]);
    ++taken;
  }
  PackedProblem heavy{.m = 256,
                      .n = 8192,
                      .k = 8192,
                      .x = DType::bf16,
                      .d = DType::fp32,
                      .weights = {WeightType::int8, 32, DType::fp32, ScaleZero::per_group}};
  heavy.bias = Bias::column;
  heavy.activation = Activation::gelu;
  expect_to_compile(heavy, PackedOverrides{.tokens = 256, .cluster_n = 2});
  expect_to_compile(heavy, PackedOverrides{.tokens = 256, .cluster_n = 1});
  EXPECT_GE(taken, 24);
}

// Covers tile widths between the listed ones, with as many accumulators and operands as registers allow.
TEST(packed_units, of_fitted_widths_compile_without_spills_or_serialised_products) {
  const WeightFormat formats[] = {{.group = 128}, {.group = 32, .zero = ScaleZero::per_group}, {.group = 0}};
  const auto problem = [&](i64 m, int turn, DType x) {
    PackedProblem p{.m = m, .n = 8192, .k = 8192, .x = x, .d = DType::bf16, .weights = formats[turn % 3]};
    if (!is_16bit(x)) p.scale_x = ScaleMode::vector, p.weights.order = FragmentOrder::byte;
    return p;
  };
  int turn = 0;
  for (const int tokens : {24, 40, 72, 96, 112, 136, 176, 208, 248}) {
    const DType x = turn % 2 == 0 ? DType::fp16 : DType::bf16;
    PackedOverrides wide{.tokens = tokens, .cluster_n = tokens % 16 == 0 ? 2 : 1};
    expect_to_compile(problem(300, turn, x), wide);
    for (const int strips : {4, 3, 2}) {
      const PackedOverrides strip{.parts = 1, .tokens = tokens, .strips = strips, .k_groups = 1};
      if (tokens <= most_strip_tokens(x, strips)) expect_to_compile(problem(300, turn, x), strip);
      if (tokens <= most_strip_tokens(DType::e4m3, strips))
        expect_to_compile(problem(300, turn, DType::e4m3), strip);
    }
    ++turn;
  }
  for (const int strips : {4, 3, 2})
    for (const DType x : {DType::fp16, DType::e4m3})
      expect_to_compile(
          problem(300, 0, x),
          PackedOverrides{.tokens = most_strip_tokens(x, strips), .strips = strips, .k_groups = 1});
}

// Covers the planner's picks for every format and number of tokens. ptxas warns in its log if it serialises
// WGMMAs.
TEST(packed_units, of_e4m3_tokens_compile_without_spills_or_serialised_products) {
  const i64 tokens[] = {1, 16, 32, 64, 128, 300};
  int taken = 0;
  for (const WeightFormat& format : test::all_formats()) {
    if (format.order != FragmentOrder::byte) continue;
    PackedProblem p{.m = tokens[taken % 6],
                    .n = taken % 4 == 0 ? 28672 : 4096,
                    .k = 4096,
                    .x = DType::e4m3,
                    .scale_x = static_cast<ScaleMode>(taken % 3),
                    .d = taken % 2 == 0 ? DType::bf16 : DType::fp32,
                    .weights = format};
    if (taken % 5 == 0) p.bias = Bias::column, p.activation = Activation::silu;
    expect_to_compile(p);
    ++taken;
  }
  EXPECT_GE(taken, 24);
}

TEST(packed_units, of_17_to_128_tokens_compile_without_spills_or_serialised_products) {
  const i64 tokens[] = {17, 32, 64, 100, 128};
  int taken = 0, strips = 0;
  for (const WeightFormat& format : test::all_formats()) {
    if (format.order != FragmentOrder::half) continue;
    const DType x = taken % 2 == 0 ? DType::bf16 : DType::fp16;
    PackedProblem p{.m = tokens[taken % 5],
                    .n = taken % 3 == 0   ? 28672
                         : taken % 3 == 1 ? 4096
                                          : 1280,
                    .k = 8192,
                    .x = x,
                    .d = x,
                    .weights = format};
    if (taken++ % 4 == 0) p.gated = true, p.activation = Activation::silu;
    const Result<Plan> plan = gemm::plan(p, DeviceInfo{});
    ASSERT_TRUE(plan) << plan.error().message;
    strips += plan->config.schedule == Schedule::strip;
    expect_to_compile(p);
  }
  EXPECT_GE(taken, 24);
  EXPECT_GE(strips, 24) << "it is these that are compiled here";
}

TEST(packed_units, of_the_bars_of_e4m3_tokens_compile_without_spills) {
  for (const int group : {64, 128})
    for (const i64 m : {1, 16, 32, 64, 128})
      for (const auto& [n, k] : {std::pair<i64, i64>{8192, 8192}, {28672, 4096}, {1280, 8192}})
        expect_to_compile({.m = m,
                           .n = n,
                           .k = k,
                           .x = DType::e4m3,
                           .scale_x = ScaleMode::vector,
                           .d = DType::bf16,
                           .weights = {.group = group, .order = FragmentOrder::byte}});
}

TEST(packed_units, text_says_all_of_a_config) {
  NarrowConfig a, b;
  EXPECT_EQ(to_string(a), to_string(b));
  b.stages = a.stages + 1;
  EXPECT_NE(unit_text(a), unit_text(b));
  b = a;
  b.weights.zero = ScaleZero::per_group;
  EXPECT_NE(unit_text(a), unit_text(b));
  WideConfig wide, other;
  EXPECT_EQ(unit_text(wide), unit_text(other));
  other.w_stages = wide.w_stages + 1;
  EXPECT_NE(unit_text(wide), unit_text(other));
  EXPECT_EQ(unit_text(PackedConfig(wide)), unit_text(wide));
  StripConfig strip, scaled;
  EXPECT_EQ(unit_text(strip), unit_text(scaled));
  scaled.scale_x = ScaleMode::vector;
  EXPECT_NE(unit_text(strip), unit_text(scaled));
}

}  // namespace
}  // namespace sluice
