// SPDX-License-Identifier: Apache-2.0
// Applies the choices of tuners and records to steps. A record comes from a file, so its choices are checked
// first.
#include <sluice/chain/chain.h>

namespace sluice {
namespace {

/// Returns whether the step may have the choice. Without a kernel it leaves the caller's kernel as it is.
bool is_possible(const ChainStep& step, const TunedStep& choice, const DeviceInfo& device) {
  const auto model = step_of(step);
  return (!choice.kernel && !model->own_overlap()) || model->may_have(choice, device);
}

}  // namespace

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

}  // namespace sluice
