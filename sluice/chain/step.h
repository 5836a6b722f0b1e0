// SPDX-License-Identifier: Apache-2.0
// What a chain asks of a step, whatever operation it is of. Each kind of step is one file of chain/steps/
// that answers; nothing else in the library tells kinds apart. A kind is added by a struct in sluice/chain.h,
// a file and a row of step_of().
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/chain.h>
#include <sluice/host/ops/operands.h>
#include <sluice/records/step_recipe.h>
#include <sluice/spec/workspace_stamp.h>

namespace sluice {

/// The head of a row of B that is left out: `bytes` in each of `parts` equal parts of it.
struct SkippedK {
  i64 bytes = 0;
  int parts = 1;
};

/// Memory of a step, from its first byte to one past the last; gaps between rows count as its own.
struct StepRange {
  const char* name = "";
  const void* data = nullptr;
  i64 bytes = 0;
};

struct ChainLaunch {
  std::function<Result<void>(const WorkspaceView& workspace, Stream stream)> launch;
  int kernels = 1;
  int programmatic = 0;  // of them
};

/// What plans are made from, beside the step.
struct PlanRequest {
  Overlap overlap;  // of the step's place
  const DeviceInfo& device;
  const ChainOptions& options;
  const RecordBook& records;
};

class Step {
 public:
  virtual ~Step() = default;

  /// Error invalid_argument: what is the chain's to set was set. Others: those of options and shapes.
  virtual Result<void> check(const ChainStep& step) const = 0;
  /// Does it launch anything at all?
  virtual bool is_launched() const = 0;
  /// What it reads, by role; `is_weight`: before the launches in front have ended.
  virtual std::vector<StepRange> ranges(bool (*wanted)(Role)) const = 0;
  /// Bytes that it must move, weights and all; gaps between rows are not moved.
  virtual i64 moved_bytes() const = 0;
  /// Is what it writes not known?
  virtual bool writes_anything() const { return false; }
  /// `bytes` of its streamed weights at most, evenly spread, so that every CTA that reads them finds the same
  /// share in L2. `skip`: of each row's k, what is on its way to shared memory anyway.
  virtual WarmRange share_of_weights(i64 bytes, const SkippedK& skip) const;
  /// What the rings of a launch that loads weights before it waits hold of each row of B.
  virtual SkippedK ring(const StepPlan&, const DeviceInfo&) const { return {}; }

  /// Set for a step that nobody plans, and whose place decides nothing. lets_go: the launch behind it may
  /// begin early.
  virtual std::optional<Overlap> own_overlap() const { return std::nullopt; }
  virtual bool lets_go() const { return true; }

  virtual Result<StepPlan> plan(const PlanRequest& request) const = 0;
  /// True if both are of one kind and, with equal overlaps, have one plan.
  virtual bool shares_plan(const Step& other) const = 0;
  /// Is this a plan of it? Asked of plans that were changed by hand.
  virtual bool agrees(const StepPlan& plan) const = 0;
  virtual Overlap overlap_of(const StepPlan& plan) const = 0;
  virtual i64 workspace_of(const StepPlan&) const { return 0; }
  virtual double estimate_us(const StepPlan& plan, const DeviceInfo& device) const = 0;
  virtual std::vector<std::string> units(const StepPlan&, Stamping) const { return {}; }
  /// A prepared kernel, which all steps of the plan share.
  virtual Result<std::any> prepare(const Device&, const StepPlan&) const { return std::any(); }
  /// Errors: those of the launch that need no driver.
  virtual Result<ChainLaunch> bind(const std::any& kernel, const PlannedStep& planned) const = 0;

  /// What a tuner chose: nothing for steps without a kernel to choose. may_have: the planner would consider
  /// it, and the step says nothing itself. put: false where it is a choice of another kind of step.
  virtual decltype(TunedStep::kernel) choice_of(const StepPlan&) const { return {}; }
  virtual bool may_have(const TunedStep&, const DeviceInfo&) const { return true; }
  virtual bool put(const TunedStep&, ChainStep&) const { return true; }
  virtual StepRecipe recipe() const = 0;

  /// For people: "1x4096x4096 ping_pong ...", and the kernel alone, whatever its overlap; empty: no product.
  virtual std::string text(const StepPlan& plan) const = 0;
  virtual std::string kernel_name(const StepPlan&) const { return ""; }
};

/// The answers for a step, which must outlive them.
std::shared_ptr<const Step> step_of(const ChainStep& step);

/// The range that hand-off and prefetch are of; no bytes without one.
StepRange main_weights(const Step& step);
inline StepRange main_weights(const ChainStep& step) {
  return main_weights(*step_of(step));
}
inline std::vector<StepRange> weights_of(const ChainStep& step) {
  return step_of(step)->ranges(is_weight);
}
inline std::vector<StepRange> written_by(const ChainStep& step) {
  return step_of(step)->ranges([](Role role) { return role == Role::write; });
}

/// The table's rows that a call follows, as ranges.
std::vector<StepRange> ranges_of(const Operands& operands, const Pointers& pointers, bool (*wanted)(Role));
i64 moved_bytes(const Operands& operands, const Pointers& pointers);

inline Error refused(const std::string& message) {
  return {ErrorCode::invalid_argument, message};
}
/// Launches that may begin before the one before them has ended.
inline int programmatic_of(const PlannedStep& planned) {
  return planned.overlap.wait != Wait::none ? 1 : 0;
}

}  // namespace sluice
