// SPDX-License-Identifier: Apache-2.0
// Chains of small products on the fake driver. Each product reads the output of the one before it.
#pragma once

#include <sluice/chain.h>

#include "launch_fixture.h"

namespace sluice {

class ChainTest : public LaunchTest {
 protected:
  static constexpr i64 kRows = 16, kWidth = 256;

  /// Returns a product of kRows x kWidth x kWidth with e4m3 inputs and an output of type `d`.
  static Problem link_problem(DType d = DType::e4m3) {
    Problem p{.m = kRows, .n = kWidth, .k = kWidth};
    p.a.type = p.b.type = DType::e4m3;
    p.d.type = d;
    return p;
  }

  /// Returns a chain of `count` products. Each has weights and buffers of its own.
  std::vector<ChainStep> links(int count) {
    std::vector<ChainStep> steps;
    void* from = driver.memory(kRows * kWidth);
    for (int i = 0; i < count; ++i) {
      void* to = driver.memory(kRows * kWidth);
      steps.push_back({.work = ProductStep{.problem = link_problem(),
                                           .overrides = {.ignore_records = true},
                                           .args = {.a = from, .b = driver.memory(kWidth * kWidth), .d = to}},
                       .name = "link" + std::to_string(i)});
      from = to;
    }
    return steps;
  }
  static ProductStep& product(ChainStep& step) { return std::get<ProductStep>(step.work); }

  ChainPlan planned(const std::vector<ChainStep>& steps, const ChainOptions& options = {}) {
    Result<ChainPlan> plan = plan_chain(steps, device().info(), options);
    EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
    return plan.ok() ? *plan : ChainPlan{};
  }
  Chain made(const std::vector<ChainStep>& steps, const ChainOptions& options = {}) {
    Result<Chain> chain = Chain::prepare(device(), steps, options);
    EXPECT_TRUE(chain.ok()) << (chain.ok() ? "" : chain.error().message);
    return *chain;
  }
  void refused_plan(const std::vector<ChainStep>& steps, ErrorCode code, const std::string& mention,
                    const ChainOptions& options = {}) {
    const Result<ChainPlan> plan = plan_chain(steps, device().info(), options);
    ASSERT_FALSE(plan.ok()) << "expected a refusal that mentions " << mention;
    EXPECT_EQ(plan.error().code, code) << plan.error().message;
    EXPECT_NE(plan.error().message.find(mention), std::string::npos) << plan.error().message;
  }
};

}  // namespace sluice
