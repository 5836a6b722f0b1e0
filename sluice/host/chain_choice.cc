// SPDX-License-Identifier: Apache-2.0
// What tuners and records say of a chain's steps, and whether it may be taken: a record is data from outside.
#include <algorithm>

#include <sluice/host/chain.h>
#include <sluice/host/planner/tuned_choice.h>

namespace sluice {
namespace {

/// Would the planner consider it for this problem?
bool is_possible(const ProductStep& step, const TunedChoice& kernel, const DeviceInfo& device) {
  return is_listed(kernel) && kernel.combine != Combine::separate &&
         gemm::plan(step.problem, device, overrides_of(kernel)).ok();
}
bool is_possible(const MixedStep& step, const mixed::TunedChoice& kernel, const DeviceInfo& device) {
  const Result<std::vector<mixed::Plan>> plans = mixed::candidates(step.problem, device);
  return plans.ok() && std::any_of(plans->begin(), plans->end(), [&](const mixed::Plan& plan) {
           return mixed::choice_of(plan).config == kernel.config;
         });
}

/// A step that says anything of it itself is left alone.
bool may_take(const TunedStep& record, const ChainStep& step, const DeviceInfo& device) {
  if (step.overlap || step.hand_off_bytes || step.prefetch_bytes) return false;
  if (const auto* s = std::get_if<ProductStep>(&step.work)) {
    const auto* kernel = std::get_if<TunedChoice>(&record.kernel);
    return s->overrides == PlanOverrides{} && kernel != nullptr && is_possible(*s, *kernel, device);
  }
  if (const auto* s = std::get_if<MixedStep>(&step.work)) {
    const auto* kernel = std::get_if<mixed::TunedChoice>(&record.kernel);
    return s->overrides == mixed::Overrides{} && kernel != nullptr && is_possible(*s, *kernel, device);
  }
  return true;
}

}  // namespace

bool put_choice(const TunedStep& choice, ChainStep& step) {
  if (std::holds_alternative<ForeignStep>(step.work)) return false;
  if (auto* s = std::get_if<ProductStep>(&step.work)) {
    const auto* kernel = std::get_if<TunedChoice>(&choice.kernel);
    if (kernel == nullptr) return false;
    s->overrides = overrides_of(*kernel);
  }
  if (auto* s = std::get_if<MixedStep>(&step.work)) {
    const auto* kernel = std::get_if<mixed::TunedChoice>(&choice.kernel);
    if (kernel == nullptr) return false;
    s->overrides = mixed::overrides_of(*kernel);
  }
  step.overlap = choice.overlap;
  step.hand_off_bytes = choice.hand_off_bytes;
  step.prefetch_bytes = choice.prefetch_bytes;
  return true;
}

TunedStep choice_of(const ChainPlan& plan, const PlannedStep& planned) {
  TunedStep choice{.overlap = planned.overlap,
                   .hand_off_bytes = planned.step.hand_off_bytes.value_or(0),
                   .prefetch_bytes = planned.step.prefetch_bytes.value_or(0)};
  const auto at = static_cast<size_t>(planned.plan);
  if (std::holds_alternative<ProductStep>(planned.step.work)) choice.kernel = choice_of(plan.products[at]);
  if (std::holds_alternative<MixedStep>(planned.step.work)) choice.kernel = mixed::choice_of(plan.mixed[at]);
  return choice;
}

void take_records(const std::vector<std::optional<TunedStep>>& records, const DeviceInfo& device,
                  std::vector<PlannedStep>& steps) {
  for (size_t i = 0; i < steps.size(); ++i)
    if (records[i] && may_take(*records[i], steps[i].step, device))
      steps[i].tuned = put_choice(*records[i], steps[i].step);
}

}  // namespace sluice
