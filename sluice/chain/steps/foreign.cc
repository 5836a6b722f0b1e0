// SPDX-License-Identifier: Apache-2.0
// Foreign steps: the caller's own launches. A chain neither plans nor compiles them, and prefetches nothing
// for them.
#include <algorithm>

#include <sluice/chain/steps/kinds.h>

namespace sluice {
namespace {

constexpr double kLongestStandInUs = 10000;

class Foreign : public Step {
 public:
  explicit Foreign(const ForeignStep& step) : step_(step) {}

  Result<void> check(const ChainStep& step) const override {
    if (!step_.enqueue && step_.nodes == 0)
      return refused(
          "nodes = 0 and ForeignStep::enqueue is empty: a gap has at least one launch; leave it out");
    if (!(step_.stand_in_us >= 0 && step_.stand_in_us <= kLongestStandInUs))
      return refused("stand_in_us = " + std::to_string(step_.stand_in_us) + " must be in 0.." +
                     std::to_string(static_cast<int>(kLongestStandInUs)) + " microseconds");
    if (step_.nodes < 0 || step_.programmatic_edges < 0 ||
        step_.programmatic_edges > std::max(step_.nodes - 1, 0))
      return refused("nodes = " + std::to_string(step_.nodes) +
                     " and programmatic_edges = " + std::to_string(step_.programmatic_edges) +
                     ": there are at least 0 nodes, and fewer edges between them");
    if (step.overlap || step.hand_off_bytes || step.prefetch_bytes)
      return refused(
          "a foreign step has no overlap, hand_off_bytes and prefetch_bytes: say ForeignStep::overlapped, "
          "and "
          "hand_off_bytes of the step before it");
    return {};
  }
  bool is_launched() const override { return step_.nodes > 0; }
  std::vector<StepRange> ranges(bool (*wanted)(Role)) const override {
    std::vector<StepRange> found;
    if (wanted(Role::read)) add(found, step_.reads, "what it reads");
    if (wanted(Role::write)) add(found, step_.writes, "what it writes");
    return found;
  }
  i64 moved_bytes() const override {
    i64 bytes = 0;
    for (const StepRange& range : ranges([](Role) { return true; })) bytes += range.bytes;
    return bytes;
  }
  bool writes_anything() const override { return step_.writes.empty(); }

  std::optional<Overlap> own_overlap() const override {
    return Overlap{step_.waits ? Wait::first : Wait::none,
                   step_.overlapped ? Trigger::at_start : Trigger::never};
  }
  bool is_gap() const override { return !step_.enqueue; }
  bool lets_go() const override { return step_.overlapped; }

  Result<StepPlan> plan(const PlanRequest&) const override { return StepPlan(); }
  Result<StepPlan> with_overlap(const StepPlan& plan, const Overlap&) const override { return plan; }
  bool shares_plan(const Step& other) const override {
    return dynamic_cast<const Foreign*>(&other) != nullptr;
  }
  bool agrees(const StepPlan&) const override { return true; }
  Overlap overlap_of(const StepPlan&) const override { return *own_overlap(); }
  double estimate_us(const StepPlan&, const DeviceInfo&) const override { return 0; }
  Result<ChainLaunch> bind(const std::any&, const PlannedStep& planned) const override {
    ChainLaunch made{.kernels = step_.nodes,
                     .programmatic = step_.programmatic_edges + programmatic_of(planned)};
    if (!is_gap())
      made.launch = [enqueue = step_.enqueue](const WorkspaceView&, Stream stream) {
        return enqueue(stream);
      };
    return made;
  }

  bool may_have(const TunedStep&, const DeviceInfo&) const override { return false; }
  bool put(const TunedStep&, ChainStep&) const override { return false; }
  StepRecipe recipe() const override {
    return ForeignRecipe{.overlapped = step_.overlapped, .waits = step_.waits};
  }
  std::string text(const StepPlan&) const override {
    return std::to_string(step_.nodes) + (is_gap() ? " of a gap" : " foreign") +
           (step_.waits ? ", waits" : "") + (step_.overlapped ? ", overlapped" : "");
  }

 private:
  static void add(std::vector<StepRange>& found, const std::vector<ForeignStep::Range>& given,
                  const char* name) {
    for (const ForeignStep::Range& range : given)
      found.push_back({.name = name, .data = range.data, .bytes = range.bytes});
  }

  const ForeignStep& step_;
};

}  // namespace

std::shared_ptr<const Step> make_step(const ForeignStep& step) {
  return std::make_shared<const Foreign>(step);
}

}  // namespace sluice
