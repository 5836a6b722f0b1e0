// SPDX-License-Identifier: Apache-2.0
// Checks a chain before it is prepared. Dependent launches restrict the caller in one way: they read weights
// before their PDL wait, so no earlier step may write weights. Activations may be reused as in any stream,
// because every write comes after a wait. A plan that was changed by hand must also keep the other rules of
// plan_chain().
#include <algorithm>

#include <sluice/chain/chain.h>
#include <sluice/host/text/lines.h>

namespace sluice {
namespace {

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

}  // namespace

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
