// SPDX-License-Identifier: Apache-2.0
// Computes products with the kernel's roles in the twin, and compares them with the reference. Operands are
// small whole numbers, so every sum is exact and is compared bit for bit. D starts as NaN, so that an element
// that is never written shows.
#include <cstdio>
#include <cstring>
#include <ctime>

#include "operands.h"

namespace sluice::twin {
namespace {

TwinReport expect_equals_reference(const Problem& problem, const KernelConfig& config, int clusters,
                                   Scalars scalars = {}) {
  Operands o = make_operands(problem);
  const Plan plan = plan_of(problem, config, clusters);
  const auto report = run_on_host(plan, o.buffers(o.d), scalars.alpha, scalars.beta, 42);
  EXPECT_TRUE(report.ok()) << report.error().message;
  if (!report) return {};
  reference_gemm(o.problem, o.buffers(o.expected), scalars.alpha, scalars.beta);
  EXPECT_EQ(std::memcmp(o.d.data(), o.expected.data(), o.d.size()), 0) << "D differs from the reference";
  return *report;
}

Problem product(i64 m, i64 n, i64 k, DType in = DType::bf16, DType out = DType::fp32) {
  return {.m = m, .n = n, .k = k, .a = {.type = in}, .b = {.type = in}, .d = {.type = out}};
}

constexpr KernelConfig kPingPong{.schedule = Schedule::ping_pong, .tile = {.m = 64, .n = 32}, .stages = 3};
constexpr KernelConfig kCooperative{
    .schedule = Schedule::cooperative, .tile = {.m = 128, .n = 48}, .stages = 3};

TEST(run, both_schedules_with_tails_in_every_dimension) {
  for (const KernelConfig& config : {kPingPong, kCooperative})
    for (i64 k : {0, 1, 63, 64, 65, 200})
      for (i64 n : {1, 8, 33, 100}) expect_equals_reference(product(130, n, k), config, 2);
}

TEST(run, every_input_and_output_type) {
  for (DType in : {DType::bf16, DType::fp16, DType::e4m3, DType::e5m2})
    for (DType out : {DType::bf16, DType::fp16, DType::fp32, DType::e4m3})
      expect_equals_reference(product(70, 40, 150, in, out), kPingPong, 3);
}

TEST(run, clusters_share_tiles_of_both_layouts) {
  for (ClusterShape cluster : {ClusterShape{2, 1}, {1, 2}, {2, 2}, {4, 1}})
    for (Major a : {Major::k, Major::mn})
      for (Major b : {Major::k, Major::mn}) {
        Problem problem = product(135, 140, 70, DType::bf16, DType::bf16);
        problem.a.major = a, problem.b.major = b;
        problem.batch = 2;
        KernelConfig config = kPingPong;
        config.tile.n = 64;
        config.cluster = cluster;
        expect_equals_reference(problem, config, 2);
      }
}

TEST(run, promotion_direct_stores_and_padded_strides) {
  KernelConfig config = kCooperative;
  config.promotes = true;
  expect_equals_reference(product(140, 60, 700, DType::e4m3, DType::bf16), config, 2);
  config.promotes = false;
  config.store = StorePath::direct;
  Problem problem = product(140, 61, 300);
  problem.a.ld = 320, problem.d.ld = 67, problem.batch = 2;
  expect_equals_reference(problem, config, 2);
}

TEST(run, block_scales_of_every_row_column_block_and_k_tile) {
  // 32, 96: parts of 128-column scale blocks; 256: partial sums in halves.
  for (const int columns : {32, 96, 256})
    for (const i64 k : {128, 700}) {
      KernelConfig config = kCooperative;
      config.tile.n = columns;
      config.cluster = columns == 96 ? ClusterShape{2, 1} : ClusterShape{1, 1};
      config.promotes = true;
      Problem problem = product(140, 300, k, DType::e4m3, DType::fp32);
      problem.batch = 2;
      problem.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
      expect_equals_reference(problem, config, 2);
    }
}

/// D^T = B A^T with both schedules, clusters of every kind, both layouts of A, scale vectors, bias, and
/// partial tiles.
TEST(run, swapped_operands) {
  int ran = 0;
  for (const KernelConfig& plain : {kPingPong, kCooperative})
    for (const ClusterShape cluster : {ClusterShape{1, 1}, {2, 1}, {1, 2}, {1, 1, 2}})
      for (const Major major : {Major::k, Major::mn}) {
        Problem problem = product(70, 136, 200, DType::bf16, DType::fp16);
        problem.batch = 2;
        problem.d.ld = 144;
        problem.a.major = major, problem.b.major = Major::k;
        problem.epilogue = {.scale_a = ScaleMode::vector,
                            .scale_b = ScaleMode::vector,
                            .bias = Bias::column,
                            .activation = Activation::relu};
        KernelConfig config = plain;
        config.cluster = cluster;
        config.d_major = Major::mn;
        for (const int columns : {8, 48, 64}) {
          config.tile.n = columns;
          if (validate(config_of(problem, config)) != nullptr) continue;
          expect_equals_reference(problem, config, 2);
          ++ran;
        }
      }
  EXPECT_GT(ran, 30);
}

TEST(run, the_whole_epilogue) {
  Problem problem = product(100, 72, 128, DType::e4m3, DType::bf16);
  problem.c.ld = 80;
  problem.epilogue = {.scale_a = ScaleMode::vector,
                      .scale_b = ScaleMode::vector,
                      .bias = Bias::column,
                      .activation = Activation::relu,
                      .residual = true,
                      .c_type = DType::fp32};
  expect_equals_reference(problem, kPingPong, 1, {.alpha = 0.5f, .beta = 2.0f});
  expect_equals_reference(problem, kPingPong, 1, {.alpha = 0.0f, .beta = -1.0f});
  expect_equals_reference(problem, kPingPong, 1, {.alpha = 1.0f, .beta = 0.0f});
}

TEST(run, any_seed_gives_the_same_bits) {
  const Problem problem = product(200, 90, 500, DType::fp16, DType::fp16);
  KernelConfig config = kPingPong;
  config.cluster = {2, 1};
  Operands o = make_operands(problem);
  // The values are fractions, so that sums in an order that depends on the seed would differ.
  for (i64 i = 0; i < problem.m * problem.k; ++i)
    store_element(DType::fp16, o.a.data(), i, 1.0 / (3 + i % 97));
  const Plan plan = plan_of(problem, config, 2);
  ASSERT_TRUE(run_on_host(plan, o.buffers(o.expected), 1.0f, 0.0f, 0).ok());
  for (u64 seed = 1; seed < 8; ++seed) {
    std::vector<u8> again(o.d.size(), 0xff);
    ASSERT_TRUE(run_on_host(plan, o.buffers(again), 1.0f, 0.0f, seed).ok());
    EXPECT_EQ(again, o.expected) << "seed " << seed;
  }
}

TEST(run, reports_what_it_did_and_is_quick) {
  const Problem problem = product(512, 512, 512, DType::bf16, DType::bf16);
  Operands o = make_operands(problem);
  const Plan plan = plan_of(
      problem,
      {.schedule = Schedule::ping_pong, .tile = {.m = 128, .n = 128}, .stages = 4, .cluster = {2, 1}}, 8);
  const std::clock_t start = std::clock();
  const auto report = run_on_host(plan, o.buffers(o.d), 1.0f, 0.0f, 1);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(report.ok()) << report.error().message;
  std::printf("             512^3: %.2f s of CPU, %lld steps\n", seconds, report->steps);
  EXPECT_EQ(report->tiles, 16);
  EXPECT_EQ(report->clusters, 8);
  EXPECT_EQ(report->loads, 16 * 8 * 3);  // per stage: one slice of A and two halves of B
  EXPECT_EQ(report->stores, 16 * 2 * 2);
  EXPECT_GT(report->context_switches, 100);
  // 509 is prime, so the samples cover all rows and columns.
  for (i64 i = 0; i < problem.m * problem.n; i += 509) {
    const ElementIndex at{.row = i / problem.n, .column = i % problem.n};
    EXPECT_EQ(load_element(DType::bf16, o.d.data(), i),
              decode_code(DType::bf16,
                          encode_code(DType::bf16, reference_element(o.problem, o.buffers(o.d), {}, at))))
        << at.row << ", " << at.column;
  }
}

TEST(run, refuses_bad_plans_and_missing_buffers_and_accepts_nothing_to_do) {
  Operands o = make_operands(product(64, 32, 64));
  Plan plan = plan_of(o.problem, kPingPong, 1);
  HostBuffers buffers = o.buffers(o.d);
  buffers.b = nullptr;
  const auto missing = run_on_host(plan, buffers, 1.0f, 0.0f, 1);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::invalid_pointer);
  EXPECT_TRUE(run_on_host(plan, buffers, 0.0f, 0.0f, 1).ok()) << "alpha = 0 reads neither A nor B";

  plan.problem.m = 0;
  EXPECT_TRUE(run_on_host(plan, {}, 1.0f, 0.0f, 1).ok());
  plan.config.stages = 1;
  const auto invalid = run_on_host(plan, {}, 1.0f, 0.0f, 1);
  ASSERT_FALSE(invalid);
  EXPECT_EQ(invalid.error().code, ErrorCode::invalid_config);
}

}  // namespace
}  // namespace sluice::twin
