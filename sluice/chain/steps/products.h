// SPDX-License-Identifier: Apache-2.0
// What steps of dense products and of those with packed weights have in common.
#pragma once

#include <sluice/chain/step.h>
#include <sluice/host/ops/kept.h>

namespace sluice {

template <class Op, class Work>
class ProductOf : public Step {
 public:
  explicit ProductOf(const Work& step) : step_(step) {}

  virtual Result<Operands> operands() const = 0;
  virtual Pointers pointers() const = 0;
  std::vector<StepRange> ranges(bool (*wanted)(Role)) const override {
    const Result<Operands> table = operands();
    return table ? ranges_of(*table, pointers(), wanted) : std::vector<StepRange>{};
  }
  i64 moved_bytes() const override {
    const Result<Operands> table = operands();
    return table ? sluice::moved_bytes(*table, pointers()) : 0;
  }

  bool shares_plan(const Step& other) const override {
    const Work& work = static_cast<const ProductOf&>(other).step_;
    return work.problem == step_.problem && work.overrides == step_.overrides;
  }
  std::vector<std::string> units(const StepPlan& plan, Stamping stamping) const override {
    return Op::units(*plan.get<typename Op::Plan>(), stamping);
  }
  Result<std::any> prepare(const Device& device, const StepPlan& plan) const override {
    SLUICE_TAKE(const auto kernel, ops::prepare<Op>(device, *plan.get<typename Op::Plan>()));
    return std::any(kernel);
  }
  std::string text(const StepPlan& plan) const override {
    const auto& p = step_.problem;
    return std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k) + " " +
           kernel_name(plan);
  }

 protected:
  Result<ChainLaunch> bind_product(const std::any& kernel, const PlannedStep& planned) const {
    const auto& made = *std::any_cast<typename Op::Handle>(&kernel);
    typename Op::Args args = step_.args;
    args.prefetch = planned.prefetch;
    args.hand_off = planned.hand_off;
    SLUICE_TRY(ops::check_args<Op>(made.impl(), args));
    const auto launch = [made, args](const WorkspaceView& workspace, Stream stream) {
      if constexpr (requires { Op::with_workspace(args, workspace); })
        if (made.plan().workspace_bytes > 0)
          return ops::launch<Op>(made.impl(), Op::with_workspace(args, workspace), stream);
      return ops::launch<Op>(made.impl(), args, stream);
    };
    return ChainLaunch{.launch = launch, .programmatic = programmatic_of(planned)};
  }

  const Work& step_;
};

}  // namespace sluice
