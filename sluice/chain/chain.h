// SPDX-License-Identifier: Apache-2.0
// Declarations that this folder's files share with bench/chain and `sluice chain --compile-only`.
#pragma once

#include <string>
#include <vector>

#include <sluice/chain.h>
#include <sluice/chain/step.h>
#include <sluice/host/ops/gemm.h>

namespace sluice {

/// Returns the plan of a step. `planned` belongs to a chain that check_chain_plan accepts.
inline const StepPlan& plan_of(const ChainPlan& chain, const PlannedStep& planned) {
  static const StepPlan none;
  return planned.plan < 0 ? none : chain.plans[static_cast<size_t>(planned.plan)];
}

/// Applies a record's or a tuner's choice to the step. Returns false and changes nothing if the choice
/// belongs to another kind of step.
bool put_choice(const TunedStep& choice, ChainStep& step);
/// One entry a step, of a record or a tuner; no entries at all: none.
using StepChoices = std::vector<std::optional<TunedStep>>;
/// Applies choices to the steps that may have the chosen kernel and where the caller decided nothing.
void take_choices(const StepChoices& choices, const DeviceInfo& device, std::vector<PlannedStep>& steps);
/// plan_chain() with these choices in the place of records'. The overlap of a choice is adjusted to the
/// step's place. `records` then say only which kernels are best alone.
Result<ChainPlan> plan_chosen(std::span<const ChainStep> steps, const DeviceInfo& device,
                              const ChainOptions& options, const RecordBook& records,
                              const StepChoices& choices);
/// Returns the choices in a step's plan, whether a caller, a record or the planner made them.
TunedStep choice_of(const ChainPlan& plan, const PlannedStep& planned);

/// Returns the short name of a product's kernel, without its overlap; empty for other steps.
std::string product_kernel(const ChainPlan& plan, const PlannedStep& planned);
/// Returns e.g. "step 3 (gate_up)".
std::string step_name(const ChainStep& step, size_t index);

/// The largest share of L2 that one step's early weights may take. More would evict data of running launches.
inline constexpr double kMostOfL2 = 0.4;
/// Decides which weights each step brings into L2: its own (prefetch) or a later step's (hand_off).
void set_warm_ranges(ChainPlan& plan, const ChainOptions& options, const DeviceInfo& device);

/// Error aliasing: a step that reads its weights early has weights that an earlier step writes.
Result<void> check_weights_unwritten(const std::vector<PlannedStep>& steps);

/// Checks that a plan made or changed by hand keeps the promises of plan_chain's. Errors: invalid_argument,
/// aliasing.
Result<void> check_chain_plan(const ChainPlan& plan);

/// Returns all JIT units that preparing the plan needs. Some may occur more than once.
std::vector<std::string> units_of(const ChainPlan& plan, Stamping stamping);

struct Chain::Impl {
  Device device;
  ChainPlan plan;
  std::vector<ChainLaunch> launches;
};

}  // namespace sluice
