// SPDX-License-Identifier: Apache-2.0
// `sluice_lab verify --records` must reach every shipped record. To see it fail: leave the fused parts of
// packed steps out of problem_of().
#include "lab/recorded_plans.h"

#include <gtest/gtest.h>

#include <sluice/plan/records/record_book.h>

namespace sluice {
namespace {

TEST(recorded_plans, reach_every_shipped_record_and_every_product_of_a_tuned_chain) {
  const ParsedRecords& shipped = embedded_records();
  const lab::RecordedPlans found = lab::recorded_plans(shipped, DeviceInfo{});
  for (const std::string& line : found.passed_over) ADD_FAILURE() << line;
  size_t steps = 0;
  for (const TunedChain& chain : shipped.chains)
    for (const auto& step : chain.steps) steps += step.choice.kernel.has_value();
  EXPECT_GT(steps, 0u);
  EXPECT_EQ(found.plans.size(), shipped.records.size() + steps);
}

TEST(recorded_plans, pass_over_those_of_a_gpu_with_other_sms) {
  DeviceInfo small;
  small.sm_count = 78;
  const lab::RecordedPlans found = lab::recorded_plans(embedded_records(), small);
  EXPECT_TRUE(found.plans.empty());
  ASSERT_FALSE(found.passed_over.empty());
  EXPECT_NE(found.passed_over[0].find("132 SMs, and this GPU has 78"), std::string::npos);
}

}  // namespace
}  // namespace sluice
