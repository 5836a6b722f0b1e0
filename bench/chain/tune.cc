// SPDX-License-Identifier: Apache-2.0
#include "bench/chain/tune.h"

#include <sluice/try.h>

namespace sluice::bench {

void put_choices(std::span<const TunedStep> choices, std::vector<ChainStep>& steps) {
  if (choices.empty()) return;
  for (size_t i = 0; i < steps.size(); ++i) {
    put_choice(choices[i % choices.size()], steps[i]);
  }
  if (steps.front().overlap) steps.front().overlap->wait = Wait::none;
  if (steps.back().overlap) steps.back().overlap->trigger = Trigger::never;
}

TunedChain tuned_chain(const Lab& lab, const LayerTuning& layer, const Times& times) {
  const bool gains = times.tuned_us < times.off_us * (1 - tuning::kLeastGain);
  TunedChain record = tuning::record_of(lab.device, layer.tuning, gains, times.tuned_us, times.off_us);
  record.name = layer.name;
  if (const std::string driver = lab.telemetry.driver_version(); !driver.empty()) record.driver = driver;
  return record;
}

Result<LayerTuning> tune_chain(const Lab& lab, const ChainData& data, const LayerTuneRequest& request,
                               const Phase& phase) {
  LayerSpec spec = fused(data.spec(), request.fusion);
  spec.passes = 1;
  const std::vector<ChainStep> steps = steps_of(spec, data.memory());
  const tuning::TuneRequest search{
      .tuning = {.seconds = request.budget_s, .progress = phase, .trials = request.trials}};
  PlanMemo memo;
  SLUICE_TAKE(const ChainPlan planned,
              plan_chain(steps, lab.device.info(), search.tuning.start, lab.device.records(), memo));
  SLUICE_TAKE(tuning::Tuning tuned_layer, tuning::tune_steps(lab.device, steps, planned, memo, search));
  const auto& [start, tuned] = tuned_layer.found.confirmed;
  LayerTuning made{
      .name = name_of(spec), .start_us = start.median / spec.layers, .tuned_us = tuned.median / spec.layers};
  made.tuning = std::move(tuned_layer);
  return made;
}

}  // namespace sluice::bench
