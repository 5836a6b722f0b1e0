// SPDX-License-Identifier: Apache-2.0
// The choice of kernels for chains. To see it fail: leave the fill of the last wave out of
// us_between_neighbours().
#include <sluice/plan/between_neighbours.h>

#include <gtest/gtest.h>

#include <sluice/chain/chain.h>
#include "tests/packed_problems.h"

namespace sluice {
namespace {

TEST(between_neighbours, grids_are_even_or_not) {
  EXPECT_DOUBLE_EQ(grid_fill(132, 1, 132), 1);
  EXPECT_DOUBLE_EQ(grid_fill(128, 4, 132), 128 / 132.0);
  EXPECT_DOUBLE_EQ(grid_fill(160, 2, 132), 160 / 264.0) << "28 SMs have two";
  EXPECT_DOUBLE_EQ(grid_fill(576, 5, 132), 576 / 660.0) << "one wave, up to five an SM";
  EXPECT_DOUBLE_EQ(grid_fill(576, 4, 132), 576 / 1056.0) << "48 of a second wave";
}

/// Run alone, the kernels with two and with three stages take the same time. In a chain, the one with three
/// stages is slower: 80.3 us per layer instead of 74.4. Of its 576 CTAs, 48 form a second wave, for which the
/// next launch must wait.
TEST(between_neighbours, a_second_wave_is_avoided_in_chains_alone) {
  const PackedProblem p{.m = 1,
                        .n = 36864,
                        .k = 7168,
                        .x = DType::bf16,
                        .d = DType::bf16,
                        .weights = {.scale = DType::bf16},
                        .activation = Activation::silu,
                        .gated = true};
  const DeviceInfo device{};
  const Result<Plan> alone = gemm::plan(p, device);
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  const auto at = [](u64 address) { return reinterpret_cast<void*>(address); };  // addresses are never read
  const gemm::Args args{.a = at(1 << 20), .b = at(u64{1} << 32), .d = at(2 << 20)};
  const std::vector<ChainStep> steps(2, {.work = ProductStep{.problem = p, .args = args}});
  const auto chosen = [&](ChainOverlap overlap) {
    const Result<ChainPlan> plan = plan_chain(steps, device, {.overlap = overlap}, RecordBook());
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    return *plan_of(*plan, plan->steps[1]).get<Plan>();
  };
  const auto without_overlap = [](Plan plan) {
    plan.config.overlap = {};
    return plan.config;
  };
  EXPECT_EQ(without_overlap(chosen(ChainOverlap::off)), alone->config);
  EXPECT_EQ(without_overlap(chosen(ChainOverlap::weights_first)), alone->config)
      << "bits are those of the overlap off";
  const Plan planned = chosen(ChainOverlap::tuned);
  EXPECT_LT(us_between_neighbours(planned, device), us_between_neighbours(*alone, device));
  EXPECT_LE(planned.estimate.total_us, 1.1 * alone->estimate.total_us);
}

}  // namespace
}  // namespace sluice
