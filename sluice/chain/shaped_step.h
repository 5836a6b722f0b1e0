// SPDX-License-Identifier: Apache-2.0
// The chain step of an ops::ShapedOp: an operation whose plan is just its options, and whose shape is an
// argument of the call. It may be a norm, a quantiser, or a user's own operation, which is a step through
// OpStep.
#pragma once

#include <sluice/chain/step.h>
#include <sluice/run/ops/engine.h>

namespace sluice {

template <class Op>
class ShapedStep : public Step {
 public:
  using Options = typename Op::Problem;  // has a member `overlap`
  using Args = typename Op::Args;        // has a member args.hand_off

  ShapedStep(const Options& options, const Args& args) : options_(options), args_(args) {}

  Result<void> check(const ChainStep&) const override {
    if (args_.args.hand_off.bytes != 0 || options_.overlap != Overlap{})
      return refused(
          "the overlap of its options and Args::hand_off are the chain's to set: say ChainStep::overlap and "
          "hand_off_bytes");
    SLUICE_TRY(Op::sealed(options_, {}));
    SLUICE_TRY(Op::bind(options_, args_));
    return {};
  }
  bool is_launched() const override {
    const auto call = Op::bind(options_, args_);
    return !call || !call->nothing;
  }
  std::vector<StepRange> ranges(bool (*wanted)(Role)) const override {
    const auto call = Op::bind(options_, args_);
    return call ? ranges_of(call->operands, call->pointers, wanted) : std::vector<StepRange>{};
  }
  i64 moved_bytes() const override {
    const auto call = Op::bind(options_, args_);
    return call ? sluice::moved_bytes(call->operands, call->pointers) : 0;
  }

  Result<StepPlan> plan(const PlanRequest&) const override { return StepPlan(options_); }
  Result<StepPlan> with_overlap(const StepPlan& plan, const Overlap& overlap) const override {
    Options made = *plan.get<Options>();
    made.overlap = overlap;
    return StepPlan(made);
  }
  bool shares_plan(const Step& other) const override {
    const auto* same = dynamic_cast<const ShapedStep*>(&other);
    return same != nullptr && options_ == same->options_;
  }
  bool agrees(const StepPlan& plan) const override {
    const auto* options = plan.get<Options>();
    if (options == nullptr) return false;
    Options alone = *options;
    alone.overlap = {};
    return alone == options_;
  }
  Overlap overlap_of(const StepPlan& plan) const override { return plan.get<Options>()->overlap; }
  double estimate_us(const StepPlan&, const DeviceInfo& device) const override {
    constexpr double kFixedUs = 2.0;  // the time of a kernel that moves almost no data, run by itself
    return kFixedUs + static_cast<double>(moved_bytes()) / device.rates.hbm_bytes_per_us;
  }
  std::vector<std::string> units(const StepPlan& plan) const override {
    return Op::units(*plan.get<Options>());
  }
  Result<std::any> prepare(const Device& device, const StepPlan& plan) const override {
    SLUICE_TAKE(const auto kernel, ops::prepare<Op>(device, *plan.get<Options>()));
    return std::any(kernel);
  }
  Result<ChainLaunch> bind(const std::any& kernel, const PlannedStep& planned) const override {
    const auto& made = *std::any_cast<typename Op::Handle>(&kernel);
    Args args = args_;
    args.args.hand_off = planned.hand_off;
    SLUICE_TRY(ops::check_args<Op>(made.impl(), args));
    return ChainLaunch{
        .launch = [made, args](const WorkspaceView&,
                               Stream stream) { return ops::launch<Op>(made.impl(), args, stream); },
        .programmatic = programmatic_of(planned)};
  }

  /// Returns a foreign recipe, because no record names an operation that the library does not list.
  StepRecipe recipe() const override { return ForeignRecipe{.overlapped = true}; }
  std::string text(const StepPlan&) const override { return Op::text(options_, args_); }

 protected:
  Options options_;
  Args args_;
};

/// Makes a step of an operation that the library does not list.
template <class Op>
OpStep op_step(const typename Op::Problem& options, const typename Op::Args& args) {
  return {std::make_shared<const ShapedStep<Op>>(options, args)};
}

}  // namespace sluice
