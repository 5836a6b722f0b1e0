// SPDX-License-Identifier: Apache-2.0
// The fixture for packed products on the fake driver, for each kernel: a prepared kernel, memory for a
// problem, and plans made by hand that prepare must refuse.
#pragma once

#include "tests/packed_problems.h"

#include "launch_fixture.h"

namespace sluice {

class PackedLaunchTest : public LaunchTest {
 protected:
  gemm::Kernel made(const PackedProblem& problem, const PlanOverrides& overrides = {}) {
    const Result<Plan> plan = gemm::plan(problem, device().info(), overrides);
    EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
    const Result<gemm::Kernel> kernel = gemm::prepare(device(), *plan);
    EXPECT_TRUE(kernel.ok()) << (kernel.ok() ? "" : kernel.error().message);
    return *kernel;
  }
  gemm::Args args_of(const PackedProblem& p) {
    gemm::Args args{.a = driver.memory(p.m * (p.ld_x + p.k) * 2 + 256),
                    .b = driver.memory(blob_bytes(p) + 256),
                    .d = driver.memory(p.m * (p.ld_d + p.n) * 4 + 256),
                    .bias = driver.memory(p.n * 4 + 256)};
    if (p.scale_x != ScaleMode::none) args.scale_a = static_cast<const float*>(driver.memory(p.m * 4 + 256));
    if (p.norm_a) args.gamma = driver.memory(p.k * 2 + 256);
    if (p.residual) args.c = driver.memory(p.m * (p.ld_c + p.n) * 4 + 256);
    if (p.scale_d != ScaleMode::none) args.scale_d = static_cast<const float*>(driver.memory(256));
    return args;
  }
  /// Expects that planning refuses the problem after `spoil` changed it.
  template <class Spoil>
  void expect_refused_problem(const PackedProblem& problem, ErrorCode code, const char* mention,
                              const Spoil& spoil, const PlanOverrides& overrides = {}) {
    PackedProblem bad = problem;
    spoil(bad);
    const Result<Plan> plan = gemm::plan(bad, device().info(), overrides);
    ASSERT_FALSE(plan.ok()) << mention;
    EXPECT_EQ(plan.error().code, code);
    EXPECT_NE(plan.error().message.find(mention), std::string::npos) << plan.error().message;
  }
  /// Expects that the problem's plan is refused after `spoil` changed it. The message must contain `mention`.
  template <class Spoil>
  void expect_refused_plan(const PackedProblem& problem, const char* mention, const Spoil& spoil) {
    Result<Plan> plan = gemm::plan(problem, device().info());
    ASSERT_TRUE(plan.ok());
    spoil(*plan);
    const Result<gemm::Kernel> kernel = gemm::prepare(device(), *plan);
    ASSERT_FALSE(kernel.ok()) << mention;
    EXPECT_NE(kernel.error().message.find(mention), std::string::npos) << kernel.error().message;
  }
};

}  // namespace sluice
