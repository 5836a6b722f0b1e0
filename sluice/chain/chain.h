// SPDX-License-Identifier: Apache-2.0
// Declarations that this folder shares with bench/chain and `sluice chain --compile-only`.
#pragma once

#include <string>
#include <vector>

#include <sluice/chain.h>
#include <sluice/chain/step.h>
#include <sluice/run/ops/gemm.h>

namespace sluice {

/// Returns the plan of a step. `planned` belongs to `chain`, which check_chain_plan() accepts.
inline const StepPlan& plan_of(const ChainPlan& chain, const PlannedStep& planned) {
  static const StepPlan none;
  return planned.plan < 0 ? none : chain.plans[static_cast<size_t>(planned.plan)];
}

/// Applies a choice of a record or a tuner to the step. Returns false and changes nothing if the choice is
/// for another kind of step.
bool put_choice(const TunedStep& choice, ChainStep& step);
/// The choices of a record or a tuner, one entry per step; empty: no choices.
using StepChoices = std::vector<std::optional<TunedStep>>;
/// Applies choices to steps. A step is not changed if the caller has set its overlap, prefetch or kernel, or
/// if the planner would not consider the chosen kernel for it.
void take_choices(const StepChoices& choices, const DeviceInfo& device, std::vector<PlannedStep>& steps);
/// Plans of launches by themselves, for one device and its records: each different product is planned once,
/// also for several plans of one chain. An overlap changes a plan and needs no other.
class PlanMemo {
 public:
  /// Returns the step's plan with this overlap. Errors: those of Step::plan and Step::with_overlap.
  Result<StepPlan> plan(const ChainStep& step, const PlanRequest& request, const Overlap& overlap);

 private:
  struct Known {
    ChainStep step;
    bool between_neighbours;
    i64 smem_limit;
    int most_stages;
    StepPlan plan;
  };
  std::vector<Known> known_;
};

/// plan_chain() with a memo of the caller's.
Result<ChainPlan> plan_chain(std::span<const ChainStep> steps, const DeviceInfo& device,
                             const ChainOptions& options, const RecordBook& records, PlanMemo& memo);
/// Like plan_chain(), with these choices instead of those of tuned chains in `records`. The overlap of a
/// choice is adjusted to the step's place. `records` then only says which kernels are fastest by themselves.
Result<ChainPlan> plan_chosen(std::span<const ChainStep> steps, const DeviceInfo& device,
                              const ChainOptions& options, const RecordBook& records,
                              const StepChoices& choices, PlanMemo& memo);
/// Returns the choices in a step's plan, regardless of whether a caller, a record or the planner made them.
TunedStep choice_of(const ChainPlan& plan, const PlannedStep& planned);

/// Returns the short name of a product's kernel, without its overlap; empty for other steps.
std::string product_kernel(const ChainPlan& plan, const PlannedStep& planned);
/// Returns a step's name for messages, for example "step 3 (gate_up)".
std::string step_name(const ChainStep& step, size_t index);

/// The largest share of L2 that prefetched weights of one step may take. More would evict data of running
/// launches.
inline constexpr double kMostOfL2 = 0.4;
/// Sets which weights each step prefetches into L2: its own (prefetch) or those of a later step (hand_off).
void set_warm_ranges(ChainPlan& plan, const ChainOptions& options, const DeviceInfo& device);

/// Error aliasing: a step that reads its weights before its PDL wait has weights that an earlier step writes.
Result<void> check_weights_unwritten(const std::vector<PlannedStep>& steps);

/// Checks that a plan that was made or changed by hand keeps the same rules as a plan of plan_chain().
/// Errors: invalid_argument, aliasing.
Result<void> check_chain_plan(const ChainPlan& plan);

/// Returns all JIT units that preparing the plan needs. Some may occur more than once.
std::vector<std::string> units_of(const ChainPlan& plan);

struct Chain::Impl {
  Device device;
  ChainPlan plan;
  std::vector<ChainLaunch> launches;  // one per launched step, gaps included
  std::vector<size_t> gaps;           // the launches that are gaps
};

}  // namespace sluice
