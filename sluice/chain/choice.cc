// SPDX-License-Identifier: Apache-2.0
// Applies the choices of tuners and records to steps. A record comes from a file, so its choices are checked
// first.
#include <algorithm>

#include <sluice/chain/chain.h>

namespace sluice {
namespace {

/// Remembers which choices are possible. A chain repeats a few products, and listing the candidates of a
/// packed one takes 0.06 ms.
class Possible {
 public:
  explicit Possible(const DeviceInfo& device) : device_(device) {}

  bool operator()(const ChainStep& step, const TunedStep& choice) {
    const auto model = step_of(step);
    const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& k) {
      return k.choice->kernel == choice.kernel && step_of(*k.step)->shares_plan(*model);
    });
    if (known != known_.end()) return known->possible;
    // A choice without a kernel leaves the caller's kernel as it is.
    const bool only_overlap = !choice.kernel && !model->own_overlap();
    known_.push_back({&step, &choice, only_overlap || model->may_have(choice, device_)});
    return known_.back().possible;
  }

 private:
  struct Known {
    const ChainStep* step;
    const TunedStep* choice;
    bool possible;
  };
  const DeviceInfo& device_;
  std::vector<Known> known_;
};

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
  Possible possible(device);
  // Computed before any step changes, because the answer for a changed step would differ.
  std::vector<bool> taken;
  for (size_t i = 0; i < steps.size(); ++i) {
    const ChainStep& step = steps[i].step;
    const bool decided = step.overlap || step.hand_off_bytes || step.prefetch_bytes;
    taken.push_back(choices[i] && !decided && possible(step, *choices[i]));
  }
  for (size_t i = 0; i < steps.size(); ++i)
    if (taken[i]) steps[i].tuned = put_choice(*choices[i], steps[i].step);
}

}  // namespace sluice
