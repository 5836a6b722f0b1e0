// SPDX-License-Identifier: Apache-2.0
// Computes products split along k in the twin: shared tiles, clusters along k, and both. The data are those
// of run_test.cc.
#include <cstring>

#include "operands.h"

namespace sluice::twin {
namespace {

Problem product(i64 m, i64 n, i64 k, DType in = DType::bf16, DType out = DType::fp32) {
  return {.m = m, .n = n, .k = k, .a = {.type = in}, .b = {.type = in}, .d = {.type = out}};
}

/// Keeps a config's own way to combine.
Plan split_plan(const Problem& problem, KernelConfig config, int slices) {
  if (slices > 1 && config.combine == Combine::none) config.combine = Combine::last_arriver;
  return sliced(plan_of(problem, config, 3), slices);
}

void expect_equals_reference(const Problem& problem, const KernelConfig& config, int slices) {
  SCOPED_TRACE(testing::Message() << name_of(config.schedule) << " cluster " << config.cluster.m << 'x'
                                  << config.cluster.n << 'x' << config.cluster.k << " slices " << slices
                                  << " k " << problem.k);
  Operands o = make_operands(problem);
  const auto report = run_on_host(split_plan(problem, config, slices), o.buffers(o.d), 1.0f, 0.0f, 42);
  ASSERT_TRUE(report.ok()) << report.error().message;
  reference_gemm(o.problem, o.buffers(o.expected), 1.0f, 0.0f);
  EXPECT_EQ(std::memcmp(o.d.data(), o.expected.data(), o.d.size()), 0) << "D differs from the reference";
}

constexpr KernelConfig kPingPong{.schedule = Schedule::ping_pong, .tile = {.m = 64, .n = 64}, .stages = 3};
constexpr KernelConfig kCooperative{
    .schedule = Schedule::cooperative, .tile = {.m = 128, .n = 64}, .stages = 3};

TEST(run_split, shared_tiles_of_both_schedules) {
  for (const KernelConfig& config : {kPingPong, kCooperative})
    for (int slices : {1, 2, 3, 7}) expect_equals_reference(product(130, 100, 390), config, slices);
}

TEST(run_split, nothing_to_multiply) {
  for (ClusterShape cluster : {ClusterShape{1, 1}, {.k = 2}}) {
    KernelConfig config = kPingPong;
    config.cluster = cluster;
    expect_equals_reference(product(130, 100, 0), config, 1);
  }
}

TEST(run_split, clusters_along_k_few_rows_and_several_passes) {
  for (KernelConfig config : {kPingPong, kCooperative})
    for (int ctas : {2, 4, 8})
      for (int columns : {64, 128})
        for (i64 rows : {17, 130}) {
          config.cluster = {.k = ctas};
          config.tile.n = columns;
          config.store = columns / ctas < 16 ? StorePath::direct : StorePath::tma;
          expect_equals_reference(product(rows, 100, 390), config, 1);
          expect_equals_reference(product(rows, 100, 390), config, 3);
        }
}

TEST(run_split, clusters_that_multicast_promotion_and_block_scales) {
  KernelConfig config = kCooperative;
  for (ClusterShape cluster : {ClusterShape{2, 1}, {1, 2}, {2, 2}, {.k = 2}}) {
    config.cluster = cluster;
    config.promotes = false;
    expect_equals_reference(product(300, 200, 390), config, 2);
    config.promotes = true;
    Problem problem = product(140, 100, 700, DType::e4m3);
    expect_equals_reference(problem, config, 3);
    problem.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
    expect_equals_reference(problem, config, 3);
  }
}

TEST(run_split, parts_that_a_second_kernel_adds_up) {
  for (KernelConfig config : {kPingPong, kCooperative})
    for (ClusterShape cluster : {ClusterShape{1, 1}, {2, 1}, {.k = 2}})
      for (int slices : {1, 2, 7}) {
        config.combine = Combine::separate;
        config.cluster = cluster;
        expect_equals_reference(product(300, 100, 448), config, slices);
      }
  KernelConfig nothing = kPingPong;
  nothing.combine = Combine::separate;
  expect_equals_reference(product(130, 100, 0), nothing, 1);
}

TEST(run_split, any_seed_gives_the_same_bits_whoever_is_the_last) {
  const Problem problem = product(100, 90, 900, DType::fp16, DType::fp16);
  KernelConfig config = kPingPong;
  config.cluster = {.k = 2};
  Operands o = make_operands(problem);
  for (i64 i = 0; i < problem.m * problem.k;
       ++i)  // fractions, so that sums in an order that depends on the seed would differ
    store_element(DType::fp16, o.a.data(), i, 1.0 / (3 + i % 97));
  const Plan plan = split_plan(problem, config, 4);
  ASSERT_TRUE(run_on_host(plan, o.buffers(o.expected), 1.0f, 0.0f, 0).ok());
  for (u64 seed = 1; seed < 6; ++seed) {
    std::vector<u8> again(o.d.size(), 0xff);
    ASSERT_TRUE(run_on_host(plan, o.buffers(again), 1.0f, 0.0f, seed).ok());
    EXPECT_EQ(again, o.expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sluice::twin
