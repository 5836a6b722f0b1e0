// SPDX-License-Identifier: Apache-2.0
// Turns steps into a ChainPlan: decides the overlap of every step, then plans each different step once.
#include <algorithm>

#include <sluice/chain/chain.h>

namespace sluice {
namespace {

Error named(const ChainStep& step, size_t index, const Error& error) {
  return {error.code, step_name(step, index) + ": " + error.message};
}

Result<void> check_step(const ChainStep& step) {
  if (step.hand_off_bytes.value_or(0) < 0 || step.prefetch_bytes.value_or(0) < 0)
    return refused("hand_off_bytes and prefetch_bytes must not be negative; 0 is none");
  const auto answers = step_of(step);
  if (answers == nullptr) return refused("its OpStep is empty: make it with op_step()");
  return answers->check(step);
}

Result<void> check_chain(std::span<const ChainStep> steps, const ChainOptions& options) {
  if (options.hand_off_bytes < 0 || options.prefetch_bytes < 0 || options.smem_limit < 0 ||
      options.most_stages < 0)
    return refused(
        "hand_off_bytes, prefetch_bytes, smem_limit and most_stages must not be negative; 0 is none");
  for (size_t i = 0; i < steps.size(); ++i)
    if (const Result<void> ok = check_step(steps[i]); !ok) return named(steps[i], i, ok.error());
  return {};
}

/// A step's place among the steps that launch a kernel.
struct Place {
  bool first = false, last = false;
  bool behind_foreign = false;  // true: the previous launch is a foreign step that does not allow overlap
};

/// Returns the overlap of a step. An overlap from a record is adjusted to the place. An overlap from the
/// caller that is not allowed at the place is an error.
Result<Overlap> overlap_at(const PlannedStep& planned, const ChainOptions& options, const Place& place) {
  const ChainStep& step = planned.step;
  if (const std::optional<Overlap> own = step_of(step)->own_overlap()) return *own;
  const auto& [first, last, behind_foreign] = place;
  Overlap made{};
  if (options.overlap != ChainOverlap::off) {
    made.wait = options.overlap == ChainOverlap::wait_first ? Wait::first : Wait::weights_first;
    made.trigger = options.trigger;
    made.spacing = options.spacing;
  }
  if (step.overlap) {
    if (first && !planned.tuned && step.overlap->wait != Wait::none)
      return refused(
          "the first launch of a chain never waits, because it has nothing of the chain to wait for: wait "
          "must be none");
    if (behind_foreign && !planned.tuned && step.overlap->wait != Wait::none)
      return refused(
          "the step before it is a foreign one that is not overlapped: wait must be none, or set "
          "ForeignStep::overlapped");
    if (last && !planned.tuned && step.overlap->trigger != Trigger::never)
      return refused(
          "the last launch of a chain never triggers, because nobody knows what follows: trigger must be "
          "never");
    made = *step.overlap;
  }
  if (first || behind_foreign) made.wait = Wait::none;
  // Without a wait launches do not overlap, so there is nothing to space.
  if (made.wait == Wait::none && !step.overlap) made.spacing = Spacing::memory;
  if (last) made.trigger = Trigger::never;
  return made;
}

/// Plans steps one after the other, and reuses the plan of an equal step: a chain of 32 layers has only four
/// different products.
class Planner {
 public:
  Planner(const DeviceInfo& device, const ChainOptions& options, const RecordBook& records, PlanMemo& memo)
      : device_(device), options_(options), records_(records), memo_(memo) {}

  /// Plans one step. `planned` must not move in memory during the Planner's lifetime.
  Result<void> plan(PlannedStep& planned) {
    const auto step = step_of(planned.step);
    if (step->own_overlap()) return {};
    const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& k) {
      return k.overlap == planned.overlap && step_of(*k.step)->shares_plan(*step);
    });
    if (known != known_.end()) {
      planned.plan = static_cast<int>(known - known_.begin());
    } else {
      const bool tuned = options_.overlap == ChainOverlap::tuned && overlaps(planned.overlap);
      SLUICE_TAKE(auto made, memo_.plan(planned.step, {tuned, device_, options_, records_}, planned.overlap));
      planned.plan = static_cast<int>(chain_.plans.size());
      known_.push_back({&planned.step, planned.overlap});
      chain_.plans.push_back(std::move(made));
    }
    const StepPlan& plan = chain_.plans[static_cast<size_t>(planned.plan)];
    if (planned.launched) planned.overlap = step->overlap_of(plan);
    planned.estimate_us = step->estimate_us(plan, device_);
    if (planned.launched) chain_.workspace_bytes = std::max(chain_.workspace_bytes, step->workspace_of(plan));
    return {};
  }
  ChainPlan take() { return std::move(chain_); }

 private:
  struct Known {  // the step and the overlap for which a plan was made
    const ChainStep* step;
    Overlap overlap;
  };
  const DeviceInfo& device_;
  const ChainOptions& options_;
  const RecordBook& records_;
  PlanMemo& memo_;
  std::vector<Known> known_;
  ChainPlan chain_;
};

/// plan_chosen() for steps and options that check_chain() accepts.
Result<ChainPlan> plan_checked(std::span<const ChainStep> steps, const DeviceInfo& device,
                               const ChainOptions& options, const RecordBook& records,
                               const StepChoices& choices, PlanMemo& memo) {
  std::vector<PlannedStep> planned;
  size_t first = steps.size(), last = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto step = step_of(steps[i]);
    planned.push_back(
        {.step = steps[i], .launched = step->is_launched(), .weight_bytes = main_weights(*step).bytes});
    if (!planned.back().launched) continue;
    first = std::min(first, i);
    last = i;
  }
  take_choices(choices, device, planned);
  Planner planner(device, options, records, memo);
  Place place;
  for (size_t i = 0; i < steps.size(); ++i) {
    place.first = i == first;
    place.last = i == last;
    const Result<Overlap> overlap = overlap_at(planned[i], options, place);
    if (!overlap) return named(steps[i], i, overlap.error());
    if (planned[i].launched) {
      planned[i].overlap = *overlap;
      place.behind_foreign = !step_of(steps[i])->lets_go();
    }
    if (const Result<void> ok = planner.plan(planned[i]); !ok) return named(steps[i], i, ok.error());
  }
  if (const Result<void> ok = check_weights_unwritten(planned); !ok) return ok.error();
  ChainPlan chain = planner.take();
  chain.steps = std::move(planned);
  set_warm_ranges(chain, options, device);
  return chain;
}

}  // namespace

Result<StepPlan> PlanMemo::plan(const ChainStep& step, const PlanRequest& request, const Overlap& overlap) {
  const auto asked = step_of(step);
  const ChainOptions& limits = request.options;
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& k) {
    return k.between_neighbours == request.between_neighbours && k.smem_limit == limits.smem_limit &&
           k.most_stages == limits.most_stages && step_of(k.step)->shares_plan(*asked);
  });
  if (known != known_.end()) return asked->with_overlap(known->plan, overlap);
  SLUICE_TAKE(StepPlan made, asked->plan(request));
  known_.push_back({step, request.between_neighbours, limits.smem_limit, limits.most_stages, made});
  return asked->with_overlap(made, overlap);
}

Result<ChainPlan> plan_chosen(std::span<const ChainStep> steps, const DeviceInfo& device,
                              const ChainOptions& options, const RecordBook& records,
                              const StepChoices& choices, PlanMemo& memo) {
  SLUICE_TRY(check_chain(steps, options));
  return plan_checked(steps, device, options, records, choices, memo);
}

Result<ChainPlan> plan_chain(std::span<const ChainStep> steps, const DeviceInfo& device,
                             const ChainOptions& options, const RecordBook& records) {
  PlanMemo memo;
  return plan_chain(steps, device, options, records, memo);
}

Result<ChainPlan> plan_chain(std::span<const ChainStep> steps, const DeviceInfo& device,
                             const ChainOptions& options, const RecordBook& records, PlanMemo& memo) {
  // Records of tuned chains apply only without limits on shared memory or stages: those limits are for
  // kernels that are fastest by themselves.
  const bool recorded =
      options.overlap == ChainOverlap::tuned && options.smem_limit == 0 && options.most_stages == 0;
  SLUICE_TRY(check_chain(steps, options));  // done before records are looked up, which needs valid steps
  return plan_checked(steps, device, options, records, recorded ? records.find(steps, device) : StepChoices(),
                      memo);
}

}  // namespace sluice
