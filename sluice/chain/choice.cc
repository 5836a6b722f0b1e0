// SPDX-License-Identifier: Apache-2.0
// What tuners and records say of a chain's steps, and whether it may be taken: a record is data from outside.
#include <algorithm>

#include <sluice/chain/chain.h>
#include <sluice/host/planner/dense/tuned_choice.h>

namespace sluice {
namespace {

/// Which kernels the planner would consider. Chains have the same few products over and over, and all
/// candidates of a packed one take 0.06 ms to list.
class Possible {
 public:
  explicit Possible(const DeviceInfo& device) : device_(device) {}

  bool operator()(const ProductStep& step, const TunedChoice& kernel) const {
    return is_listed(kernel) && kernel.combine != Combine::separate &&
           gemm::plan(step.problem, device_, overrides_of(kernel)).ok();
  }
  bool operator()(const PackedStep& step, const packed::TunedChoice& kernel) {
    const auto known = std::find_if(listed_.begin(), listed_.end(),
                                    [&](const Listed& l) { return l.problem == step.problem; });
    const Listed& listed = known != listed_.end() ? *known : listed_.emplace_back(list(step.problem));
    return std::find(listed.configs.begin(), listed.configs.end(), kernel.config) != listed.configs.end();
  }

 private:
  struct Listed {
    PackedProblem problem;
    std::vector<PackedConfig> configs;
  };
  Listed list(const PackedProblem& problem) const {
    Listed made{.problem = problem};
    if (const Result<std::vector<packed::Plan>> plans = packed::candidates(problem, device_))
      for (const packed::Plan& plan : *plans) made.configs.push_back(packed::choice_of(plan).config);
    return made;
  }

  const DeviceInfo& device_;
  std::vector<Listed> listed_;
};

/// A step that says anything of it itself is left alone.
bool may_take(const TunedStep& record, const ChainStep& step, Possible& possible) {
  if (step.overlap || step.hand_off_bytes || step.prefetch_bytes) return false;
  if (const auto* s = std::get_if<ProductStep>(&step.work)) {
    const auto* kernel = std::get_if<TunedChoice>(&record.kernel);
    return s->overrides == PlanOverrides{} && kernel != nullptr && possible(*s, *kernel);
  }
  if (const auto* s = std::get_if<PackedStep>(&step.work)) {
    const auto* kernel = std::get_if<packed::TunedChoice>(&record.kernel);
    return s->overrides == packed::Overrides{} && kernel != nullptr && possible(*s, *kernel);
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
  if (auto* s = std::get_if<PackedStep>(&step.work)) {
    const auto* kernel = std::get_if<packed::TunedChoice>(&choice.kernel);
    if (kernel == nullptr) return false;
    s->overrides = packed::overrides_of(*kernel);
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
  if (std::holds_alternative<PackedStep>(planned.step.work))
    choice.kernel = packed::choice_of(plan.packed[at]);
  return choice;
}

void take_records(const std::vector<std::optional<TunedStep>>& records, const DeviceInfo& device,
                  std::vector<PlannedStep>& steps) {
  Possible possible(device);
  for (size_t i = 0; i < steps.size(); ++i)
    if (records[i] && may_take(*records[i], steps[i].step, possible))
      steps[i].tuned = put_choice(*records[i], steps[i].step);
}

}  // namespace sluice
