// SPDX-License-Identifier: Apache-2.0
// What must hold before a launch, in two halves: of the plan, once, in prepare; of the arguments, every time.
// Every message has the argument, its value, the rule and the remedy. Success allocates nothing.
#pragma once

#include <array>

#include <sluice/gemm.h>
#include <sluice/host/ops/operand_checks.h>

namespace sluice::gemm {

enum Operand { kA, kB, kC, kD, kScaleA, kScaleB, kScaleD, kBias, kWorkspace, kOperandCount };

/// The argument checks of one plan, worked out as far as they can be without the arguments.
struct ArgRules {
  std::array<OperandRule, kOperandCount> operands;
  bool c_may_be_d = false;  // same type and strides: each element is read before it is written
  bool has_k = false;
};

/// For a plan with a D that is not empty. Error invalid_size: an operand of more than 2^63 bytes.
Result<ArgRules> argument_rules(const Plan& plan);

/// Null, misaligned, aliasing: by value alone.
Result<void> check_values(const ArgRules& rules, const Args& args);
/// Asks the driver whose memory each pointer is. Errors: invalid_pointer (host), wrong_device, driver.
Result<void> check_memory(const PrimaryContext& primary, const ArgRules& rules, const Args& args);
/// A plan made or changed by hand is as welcome as the planner's, if it is consistent: the problem passes the
/// planner's own checks, and the configuration is one for it. Errors: those of gemm::plan.
Result<void> check_plan(const Plan& plan, const DeviceInfo& device);

/// Nothing to launch, whatever the arguments: m, n or batch is 0, or D += a sum over nothing.
constexpr bool is_empty(const Problem& problem) {
  return problem.m == 0 || problem.n == 0 || problem.batch == 0 || leaves_d(problem, 1.0f);
}

}  // namespace sluice::gemm
