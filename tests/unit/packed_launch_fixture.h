// SPDX-License-Identifier: Apache-2.0
// The fixture for packed products on the fake driver, for each kernel: a prepared kernel, memory for a
// problem, and plans made by hand that prepare must refuse.
#pragma once

#include <sluice/packed.h>

#include "launch_fixture.h"

namespace sluice {

class PackedLaunchTest : public LaunchTest {
 protected:
  packed::Kernel made(const PackedProblem& problem, const packed::Overrides& overrides = {}) {
    const Result<packed::Plan> plan = packed::plan(problem, device().info(), overrides);
    EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
    const Result<packed::Kernel> kernel = packed::prepare(device(), *plan);
    EXPECT_TRUE(kernel.ok()) << (kernel.ok() ? "" : kernel.error().message);
    return *kernel;
  }
  packed::Args args_of(const PackedProblem& p) {
    packed::Args args{.x = driver.memory(p.m * (p.ld_x + p.k) * 2 + 256),
                      .weights = driver.memory(blob_bytes(p) + 256),
                      .d = driver.memory(p.m * (p.ld_d + p.n) * 4 + 256),
                      .bias = driver.memory(p.n * 4 + 256)};
    if (p.scale_x != ScaleMode::none) args.scale_x = static_cast<const float*>(driver.memory(p.m * 4 + 256));
    if (p.norm_x) args.gamma = driver.memory(p.k * 2 + 256);
    if (p.residual) args.c = driver.memory(p.m * (p.ld_c + p.n) * 4 + 256);
    if (p.scale_d != ScaleMode::none) args.scale_d = static_cast<const float*>(driver.memory(256));
    return args;
  }
  /// Expects that planning refuses the problem after `spoil` changed it.
  template <class Spoil>
  void expect_refused_problem(const PackedProblem& problem, ErrorCode code, const char* mention,
                              const Spoil& spoil, const packed::Overrides& overrides = {}) {
    PackedProblem bad = problem;
    spoil(bad);
    const Result<packed::Plan> plan = packed::plan(bad, device().info(), overrides);
    ASSERT_FALSE(plan.ok()) << mention;
    EXPECT_EQ(plan.error().code, code);
    EXPECT_NE(plan.error().message.find(mention), std::string::npos) << plan.error().message;
  }
  /// Expects that the problem's plan is refused after `spoil` changed it. The message must contain `mention`.
  template <class Spoil>
  void expect_refused_plan(const PackedProblem& problem, const char* mention, const Spoil& spoil) {
    Result<packed::Plan> plan = packed::plan(problem, device().info());
    ASSERT_TRUE(plan.ok());
    spoil(*plan);
    const Result<packed::Kernel> kernel = packed::prepare(device(), *plan);
    ASSERT_FALSE(kernel.ok()) << mention;
    EXPECT_NE(kernel.error().message.find(mention), std::string::npos) << kernel.error().message;
  }
};

}  // namespace sluice
