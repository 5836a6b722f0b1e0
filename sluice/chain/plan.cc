// SPDX-License-Identifier: Apache-2.0
// Turns steps into a ChainPlan: applies the choices of records and tuners, decides the overlap of every step,
// plans each different step once, and divides the weights to prefetch. Records come from files, so their
// choices are checked first. Plans that were changed by hand are checked against the same rules. Dependent
// launches restrict the caller in one way: they read weights before their PDL wait, so no earlier step may
// write weights. Activations may be reused as in any stream, because every write comes after a wait.
#include <algorithm>

#include <sluice/chain/chain.h>
#include <sluice/plan/text/lines.h>

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

/// Returns whether the step may have the choice. Without a kernel it leaves the caller's kernel as it is.
bool is_possible(const ChainStep& step, const TunedStep& choice, const DeviceInfo& device) {
  const auto model = step_of(step);
  return (!choice.kernel && !model->own_overlap()) || model->may_have(choice, device);
}

// Launches ahead for which a launch may prefetch weights. Those for a later one would be evicted first.
constexpr size_t kFarthest = 4;

/// Returns the part of each row that a launch loads into its rings of stages before its PDL wait.
SkippedK ring_of(const PlannedStep& s, const ChainPlan& plan, const DeviceInfo& device) {
  if (s.overlap.wait != Wait::weights_first) return {};
  return step_of(s.step)->ring(plan_of(plan, s), device);
}

struct Range {
  u64 begin, end;
};

/// A sorted list of disjoint memory ranges; ranges that touch are merged.
class Ranges {
 public:
  void add(const StepRange& range) {
    if (range.data == nullptr || range.bytes <= 0) return;
    const u64 begin = reinterpret_cast<u64>(range.data);
    Range joined{begin, begin + static_cast<u64>(range.bytes)};
    auto first =
        std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.end >= joined.begin; });
    auto last = first;
    for (; last != ranges_.end() && last->begin <= joined.end; ++last)
      joined = {std::min(joined.begin, last->begin), std::max(joined.end, last->end)};
    ranges_.insert(ranges_.erase(first, last), joined);
  }
  bool touches(const StepRange& range) const {
    if (range.data == nullptr || range.bytes <= 0) return false;
    const u64 begin = reinterpret_cast<u64>(range.data), end = begin + static_cast<u64>(range.bytes);
    return std::any_of(ranges_.begin(), ranges_.end(),
                       [&](const Range& r) { return r.begin < end && begin < r.end; });
  }

 private:
  std::vector<Range> ranges_;
};

/// Returns the rule that a launched step's overlap breaks at its place in the chain; null if it breaks none.
const char* broken_rule(const Overlap& overlap, bool first, bool last, bool behind_foreign) {
  if (first && overlap.wait != Wait::none) return "it is the first launch of the chain, and waits";
  if (behind_foreign && overlap.wait != Wait::none)
    return "the step before it is a foreign one that is not overlapped, and it waits";
  if (last && overlap.trigger != Trigger::never) return "it is the last launch of the chain, and triggers";
  return nullptr;
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
  const auto& [first, last, behind_foreign] = place;
  if (std::optional<Overlap> own = step_of(step)->own_overlap()) {
    if (behind_foreign && own->wait != Wait::none)
      return refused(
          "it waits, and the step before it is a foreign one that is not overlapped: join both to one step, "
          "or "
          "leave `waits` out");
    if (first) own->wait = Wait::none;  // an ordinary launch, whatever it waits for
    return *own;
  }
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
  if (made.wait == Wait::weights_first && !step_of(step)->has_early_weights()) made.wait = Wait::first;
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

bool put_choice(const TunedStep& choice, ChainStep& step) {
  if (!step_of(step)->put(choice, step)) return false;
  step.overlap = choice.overlap;
  step.hand_off_bytes = choice.hand_off_bytes;
  step.prefetch_bytes = choice.prefetch_bytes;
  return true;
}

TunedStep choice_of(const ChainPlan& plan, const PlannedStep& planned) {
  return {.kernel = step_of(planned.step)->choice_of(plan_of(plan, planned)),
          .overlap = planned.overlap,
          .hand_off_bytes = planned.step.hand_off_bytes.value_or(0),
          .prefetch_bytes = planned.step.prefetch_bytes.value_or(0)};
}

void take_choices(const StepChoices& choices, const DeviceInfo& device, std::vector<PlannedStep>& steps) {
  if (choices.empty()) return;
  // Computed before any step changes, because the answer for a changed step would differ.
  std::vector<bool> taken;
  for (size_t i = 0; i < steps.size(); ++i) {
    const ChainStep& step = steps[i].step;
    const bool decided = step.overlap || step.hand_off_bytes || step.prefetch_bytes;
    taken.push_back(choices[i] && !decided && is_possible(step, *choices[i], device));
  }
  for (size_t i = 0; i < steps.size(); ++i)
    if (taken[i]) steps[i].tuned = put_choice(*choices[i], steps[i].step);
}

void set_warm_ranges(ChainPlan& plan, const ChainOptions& options, const DeviceInfo& device) {
  const i64 most = static_cast<i64>(kMostOfL2 * static_cast<double>(device.l2_bytes));
  std::vector<PlannedStep*> launched;
  for (PlannedStep& s : plan.steps)
    if (s.launched) launched.push_back(&s);
  std::vector<bool> served(launched.size());  // true: an earlier step prefetches the launch's share
  for (size_t i = 0; i < launched.size(); ++i) {
    PlannedStep& s = *launched[i];
    const auto step = step_of(s.step);
    if (step->own_overlap()) continue;
    const i64 own = std::min(s.step.prefetch_bytes.value_or(options.prefetch_bytes), most);
    if (s.overlap.wait != Wait::none && !served[i])
      s.prefetch = step->share_of_weights(own, ring_of(s, plan, device));
    // Number of CTAs that prefetch. Any launch has at least that many resident CTAs.
    s.prefetch.ctas = static_cast<u32>(device.sm_count);
    if (!overlaps(s.overlap)) continue;
    const i64 given = std::min(s.step.hand_off_bytes.value_or(options.hand_off_bytes), most);
    const size_t end = std::min(launched.size(), i + 1 + kFarthest);
    for (size_t to = i + 1; to < end && !served[to] && total_bytes(s.hand_off) == 0; ++to) {
      s.hand_off = step_of(launched[to]->step)->share_of_weights(given, ring_of(*launched[to], plan, device));
      served[to] = total_bytes(s.hand_off) > 0;
    }
  }
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

Result<void> check_chain_plan(const ChainPlan& chain) {
  const auto refused = [&](size_t i, const std::string& what) {
    return Error{ErrorCode::invalid_argument,
                 step_name(chain.steps[i].step, i) + ": " + what + "; plan the chain again"};
  };
  size_t last = chain.steps.size();
  for (size_t i = 0; i < chain.steps.size(); ++i)
    if (chain.steps[i].launched) last = i;
  i64 workspace = 0;
  bool first = true, behind_foreign = false;
  for (size_t i = 0; i < chain.steps.size(); ++i) {
    const PlannedStep& s = chain.steps[i];
    const auto step = step_of(s.step);
    if (s.launched != step->is_launched())
      return refused(i, s.launched ? "there is nothing for it to launch" : "it has something to launch");
    if (!s.launched) continue;
    const bool planned = !step->own_overlap();
    if (planned) {
      if (s.plan < 0 || static_cast<size_t>(s.plan) >= chain.plans.size())
        return refused(i, "its plan = " + std::to_string(s.plan) + " is none of the chain's");
      const StepPlan& plan = plan_of(chain, s);
      if (!step->agrees(plan)) return refused(i, "its plan is of another problem");
      if (s.overlap != step->overlap_of(plan))
        return refused(i, "its overlap is not that of its kernel's plan");
      workspace = std::max(workspace, step->workspace_of(plan));
    }
    if (const char* rule = broken_rule(s.overlap, first, i == last && planned, behind_foreign))
      return refused(i, rule);
    first = false;
    behind_foreign = !step->lets_go();
  }
  if (chain.workspace_bytes < workspace)
    return Error{ErrorCode::invalid_argument, "workspace_bytes = " + std::to_string(chain.workspace_bytes) +
                                                  " and its plans need " + std::to_string(workspace) +
                                                  "; plan the chain again"};
  return check_weights_unwritten(chain.steps);
}

std::string step_name(const ChainStep& step, size_t index) {
  const std::string number = "step " + std::to_string(index);
  return step.name.empty() ? number : number + " (" + step.name + ")";
}

Result<void> check_weights_unwritten(const std::vector<PlannedStep>& steps) {
  Ranges written;        // memory written since the last launch that waited for all earlier ones to end
  std::string anything;  // name of a step that may write any memory; empty: none
  for (size_t i = 0; i < steps.size(); ++i) {
    const PlannedStep& s = steps[i];
    if (!s.launched) continue;
    const auto step = step_of(s.step);
    const std::vector<StepRange> weights = weights_of(s.step);
    if (s.overlap.wait == Wait::none) written = {}, anything.clear();
    if (s.overlap.wait != Wait::none && !anything.empty() && !weights.empty())
      return Error{ErrorCode::aliasing,
                   step_name(s.step, i) + ": its weights may be read before " + anything +
                       " has ended, which does not say what it writes: name it in ForeignStep::writes, or "
                       "give this step the overlap wait = none"};
    // Wait::first too, because some kernels read bias, gamma or scales before the wait
    if (s.overlap.wait != Wait::none)
      for (const StepRange& range : weights)
        if (written.touches(range))
          return Error{
              ErrorCode::aliasing,
              step_name(s.step, i) + ": " + range.name + " (" + hex(range.data) + " + " +
                  std::to_string(range.bytes) +
                  " bytes) is written by a step before it, and may be read before that step has ended: "
                  "give this step the overlap wait = none, or other memory"};
    for (const StepRange& range : written_by(s.step)) written.add(range);
    if (step->writes_anything()) anything = step_name(s.step, i);
  }
  return {};
}

}  // namespace sluice
