// SPDX-License-Identifier: Apache-2.0
// The interface between a chain and its steps. Each kind of step implements it in one file of chain/steps/;
// no other file of the library distinguishes kinds. A new kind needs a struct in sluice/chain.h, a file, and
// a row in steps/kinds.h.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/chain.h>
#include <sluice/plan/records/tuned_chain.h>
#include <sluice/run/ops/operands.h>

namespace sluice {

/// The part of each row of B that need not be prefetched. A row consists of `parts` equal parts; the first
/// `bytes` of each are skipped.
struct SkippedK {
  i64 bytes = 0;
  int parts = 1;
};

/// The memory of one operand, from its first byte to the end of its last, including the gaps between rows.
struct StepRange {
  const char* name = "";
  const void* data = nullptr;
  i64 bytes = 0;
  std::optional<DType> type{};  // nothing: plain bytes
  Footprint memory{};           // rows, where there is a type
};

struct ChainLaunch {
  std::function<Result<void>(const WorkspaceView& workspace, Stream stream)> launch{};  // empty: a gap
  int kernels = 1;
  int programmatic = 0;  // how many of the kernels may start before the previous launch ends
};

/// The inputs of a plan, in addition to the step.
struct PlanRequest {
  bool between_neighbours = false;  // true: the chain overlaps the launch, and may pick a kernel for that
  const DeviceInfo& device;
  const ChainOptions& options;
  const RecordBook& records;
};

class Step {
 public:
  virtual ~Step() = default;

  /// Checks the step. Error invalid_argument: the caller set a field that only the chain may set. Other
  /// errors are those of options and shapes.
  virtual Result<void> check(const ChainStep& step) const = 0;
  /// Returns whether the step launches a kernel at all; not if its output is empty, for example.
  virtual bool is_launched() const = 0;
  /// Returns the memory of each operand for whose role `wanted` returns true.
  virtual std::vector<StepRange> ranges(bool (*wanted)(Role)) const = 0;
  /// Returns the bytes that the step must read and write: weights included, gaps between rows not.
  virtual i64 moved_bytes() const = 0;
  /// Returns whether the step may write memory that it does not declare.
  virtual bool writes_anything() const { return false; }
  /// Returns a range of at most `bytes` of the streamed weights to prefetch into L2. It is spread so that
  /// each CTA that reads the weights finds an equal share there. `skip`: the part of each row that the step
  /// loads early by itself.
  virtual WarmRange share_of_weights(i64 bytes, const SkippedK& skip) const;
  /// Returns the part of each row of B that a launch loads into its rings of stages before its PDL wait.
  virtual SkippedK ring(const StepPlan&, const DeviceInfo&) const { return {}; }

  /// own_overlap() returns the overlap of a step that has no plan and ignores its place; nullopt for all
  /// other steps. lets_go() returns whether the next launch may start before this step's launch ends.
  virtual std::optional<Overlap> own_overlap() const { return std::nullopt; }
  virtual bool lets_go() const { return true; }
  /// Returns whether a launch may load weights before its PDL wait. If not, Wait::weights_first means
  /// Wait::first.
  virtual bool has_early_weights() const { return true; }
  /// Returns whether the caller launches in the step's place, between two parts of the chain.
  virtual bool is_gap() const { return false; }

  /// plan() returns the plan of a launch without overlap. with_overlap() returns it with one; an overlap
  /// changes nothing else of a plan. Error invalid_config: the kernel cannot have that overlap.
  virtual Result<StepPlan> plan(const PlanRequest& request) const = 0;
  virtual Result<StepPlan> with_overlap(const StepPlan& plan, const Overlap& overlap) const = 0;
  /// Returns whether both steps are of one kind and have the same plan.
  virtual bool shares_plan(const Step& other) const = 0;
  /// Returns whether `plan` belongs to this step. It may not, because a plan can be changed by hand.
  virtual bool agrees(const StepPlan& plan) const = 0;
  virtual Overlap overlap_of(const StepPlan& plan) const = 0;
  virtual i64 workspace_of(const StepPlan&) const { return 0; }
  virtual double estimate_us(const StepPlan& plan, const DeviceInfo& device) const = 0;
  virtual std::vector<std::string> units(const StepPlan&) const { return {}; }
  /// Returns a prepared kernel; all steps with the same plan share it.
  virtual Result<std::any> prepare(const Device&, const StepPlan&) const { return std::any(); }
  /// Binds the step's arguments to its kernel. Returns those errors of a launch that can be found without the
  /// driver.
  virtual Result<ChainLaunch> bind(const std::any& kernel, const PlannedStep& planned) const = 0;

  /// choice_of() returns the choice of kernel in a plan; empty if the step has none to choose. may_have()
  /// returns whether the caller chose nothing and the planner would consider a tuned choice. put() applies a
  /// tuned choice, or returns false if it is for another kind of step.
  virtual std::optional<TunedChoice> choice_of(const StepPlan&) const { return {}; }
  virtual bool may_have(const TunedStep&, const DeviceInfo&) const { return true; }
  virtual bool put(const TunedStep&, ChainStep&) const { return true; }
  virtual StepRecipe recipe() const = 0;

  /// text() describes the step in readable text: "1x4096x4096 ping_pong ...". kernel_name() returns a
  /// product's kernel without its overlap; it is empty for other steps.
  virtual std::string text(const StepPlan& plan) const = 0;
  virtual std::string kernel_name(const StepPlan&) const { return ""; }
};

/// Returns the interface of a step. `step` must outlive it.
std::shared_ptr<const Step> step_of(const ChainStep& step);

/// Returns the step's recipe. `step` must be one that plan_chain accepts.
StepRecipe recipe_of(const ChainStep& step);
/// Returns the steps of a tuned chain: those of `layer` with these choices, one per step.
std::vector<TunedChain::Step> tuned_steps(std::span<const ChainStep> layer,
                                          std::span<const TunedStep> choices);

/// Returns a product's B; no bytes if the step is no product.
StepRange main_weights(const Step& step);
/// Returns them if hand-off and prefetch may load them into L2, and no bytes otherwise.
StepRange streamed_weights(const Step& step);
inline StepRange main_weights(const ChainStep& step) {
  return main_weights(*step_of(step));
}
inline std::vector<StepRange> weights_of(const ChainStep& step) {
  return step_of(step)->ranges(is_weight);
}
inline std::vector<StepRange> written_by(const ChainStep& step) {
  return step_of(step)->ranges([](Role role) { return role == Role::write; });
}

/// Returns the memory of each operand that a call uses and for whose role `wanted` returns true.
std::vector<StepRange> ranges_of(const Operands& operands, const Pointers& pointers, bool (*wanted)(Role));
i64 moved_bytes(const Operands& operands, const Pointers& pointers);

inline Error refused(const std::string& message) {
  return {ErrorCode::invalid_argument, message};
}
/// Returns how many kernels of a step with one kernel may start before the previous launch ends: 1 or 0.
inline int programmatic_of(const PlannedStep& planned) {
  return planned.overlap.wait != Wait::none ? 1 : 0;
}

}  // namespace sluice
