// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <sluice/chain/steps/kinds.h>
#include <sluice/chain/steps/products.h>
#include <sluice/host/ops/packed.h>
#include <sluice/host/planner/dense/tuned_choice.h>
#include <sluice/host/text/packed_units.h>

namespace sluice {
namespace {

class PackedOfChain : public ProductOf<ops::Packed, PackedStep> {
 public:
  using ProductOf::ProductOf;

  Result<void> check(const ChainStep&) const override {
    if (step_.overrides.overlap != Overlap{} || step_.args.prefetch.bytes != 0 ||
        step_.args.hand_off.bytes != 0)
      return refused(
          "packed::Overrides::overlap and Args::prefetch and hand_off are the chain's to set: say "
          "ChainStep::overlap, hand_off_bytes and prefetch_bytes");
    return {};
  }
  bool is_launched() const override { return !packed::is_empty(step_.problem); }
  Result<Operands> operands() const override { return packed::operands_of(step_.problem); }
  Pointers pointers() const override { return packed::pointers_of(step_.args); }

  Result<StepPlan> plan(const PlanRequest& request) const override {
    packed::Overrides overrides = step_.overrides;
    overrides.overlap = request.overlap;
    SLUICE_TAKE(const auto made, packed::plan(step_.problem, request.device, overrides, request.records));
    return StepPlan(made);
  }
  bool agrees(const StepPlan& plan) const override {
    const auto* made = plan.get<packed::Plan>();
    const Result<PackedProblem> problem = packed::check_problem(step_.problem);
    return made != nullptr && problem && *problem == made->problem;
  }
  Overlap overlap_of(const StepPlan& plan) const override {
    return std::visit([](const auto& config) { return config.overlap; }, plan.get<packed::Plan>()->config);
  }
  double estimate_us(const StepPlan& plan, const DeviceInfo&) const override {
    const auto& made = *plan.get<packed::Plan>();
    return made.measured_us > 0 ? made.measured_us : made.estimate_us;
  }
  Result<ChainLaunch> bind(const std::any& kernel, const PlannedStep& planned) const override {
    SLUICE_TAKE(ChainLaunch bound, bind_product(kernel, planned));
    bound.kernels = ops::Packed::launches_of(std::any_cast<const packed::Kernel&>(kernel).plan());
    bound.programmatic *= bound.kernels;
    return bound;
  }

  decltype(TunedStep::kernel) choice_of(const StepPlan& plan) const override {
    return packed::choice_of(*plan.get<packed::Plan>());
  }
  bool may_have(const TunedStep& tuned, const DeviceInfo& device) const override {
    const auto* kernel = std::get_if<packed::TunedChoice>(&tuned.kernel);
    if (kernel == nullptr || !(step_.overrides == packed::Overrides{})) return false;
    const auto plans = packed::candidates(step_.problem, device);
    return plans && std::any_of(plans->begin(), plans->end(), [&](const packed::Plan& plan) {
             return packed::choice_of(plan).config == kernel->config;
           });
  }
  bool put(const TunedStep& tuned, ChainStep& step) const override {
    const auto* kernel = std::get_if<packed::TunedChoice>(&tuned.kernel);
    if (kernel != nullptr) std::get<PackedStep>(step.work).overrides = packed::overrides_of(*kernel);
    return kernel != nullptr;
  }
  StepRecipe recipe() const override {
    const PackedProblem& p = step_.problem;
    return PackedStepRecipe{
        .product = recipe_of(p), .gated = p.gated, .norm_x = p.norm_x, .residual = p.residual};
  }
  std::string kernel_name(const StepPlan& plan) const override {
    PackedConfig config = plan.get<packed::Plan>()->config;
    std::visit([](auto& c) { c.overlap = {}; }, config);
    return packed::short_name(config);
  }
};

}  // namespace

std::shared_ptr<const Step> make_step(const PackedStep& step) {
  return std::make_shared<const PackedOfChain>(step);
}

}  // namespace sluice
