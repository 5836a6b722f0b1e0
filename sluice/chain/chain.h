// SPDX-License-Identifier: Apache-2.0
// What the files of chains share. Called by them, by bench/chain and by `sluice chain --compile-only`.
#pragma once

#include <string>
#include <vector>

#include <sluice/chain.h>
#include <sluice/chain/step.h>
#include <sluice/host/ops/gemm.h>

namespace sluice {

/// The plan that a step has among the chain's. `planned` is one of a chain that check_chain_plan takes.
inline const StepPlan& plan_of(const ChainPlan& chain, const PlannedStep& planned) {
  static const StepPlan none;
  return planned.plan < 0 ? none : chain.plans[static_cast<size_t>(planned.plan)];
}

/// Makes the step what a record, or a tuner, says of it; false, and nothing done: it is a choice of another
/// kind of step.
bool put_choice(const TunedStep& choice, ChainStep& step);
/// Every step that has a record, may have its kernel, and says nothing itself. One entry a step.
void take_records(const std::vector<std::optional<TunedStep>>& records, const DeviceInfo& device,
                  std::vector<PlannedStep>& steps);
/// What was decided about a step, whoever decided it.
TunedStep choice_of(const ChainPlan& plan, const PlannedStep& planned);

/// The short name of a product's kernel, whatever its overlap; empty for other steps.
std::string product_kernel(const ChainPlan& plan, const PlannedStep& planned);
/// "step 3 (gate_up)"
std::string step_name(const ChainStep& step, size_t index);

/// Of what is brought into L2 early: more bytes put out what others are about to read.
inline constexpr double kMostOfL2 = 0.4;
/// What each step brings into L2, and when.
void set_warm_ranges(ChainPlan& plan, const ChainOptions& options, const DeviceInfo& device);

/// Error aliasing: a step that reads its weights early has weights that a step before it writes.
Result<void> check_weights_unwritten(const std::vector<PlannedStep>& steps);

/// A chain's plan that was made or changed by hand is as welcome as plan_chain's, if it keeps what that
/// promises. Errors: invalid_argument, aliasing.
Result<void> check_chain_plan(const ChainPlan& plan);

/// All JIT units that preparing the plan takes, some more than once.
std::vector<std::string> units_of(const ChainPlan& plan, Stamping stamping);

struct Chain::Impl {
  Device device;
  ChainPlan plan;
  std::vector<ChainLaunch> launches;
};

}  // namespace sluice
