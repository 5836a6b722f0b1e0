// SPDX-License-Identifier: Apache-2.0
// The tuner of chains on the bench's layers. Used by chain/session.cc.
#pragma once

#include <sluice/tools.h>

#include "bench/chain/data.h"
#include "bench/session.h"

namespace sluice::bench {

/// Puts the choices for a layer's steps into all layers of a chain; the chain's ends wait and trigger as they
/// must.
void put_choices(std::span<const TunedStep> choices, std::vector<ChainStep>& steps);

struct LayerTuning {
  tuning::Tuning tuning;
  std::string name;                   // the chain's
  double start_us = 0, tuned_us = 0;  // a layer, both in one race
};

/// Microseconds a layer, timed in turn.
struct Times {
  double tuned_us = 0, off_us = 0;
};
struct LayerTuneRequest {
  Fusion fusion = Fusion::none;
  double budget_s = 0;  // at most
  std::function<void(const std::string& json)> trials{};
};

/// Minimum of a tuned chain's layers, or L2 serves them.
inline constexpr int kLeastTunedLayers = 4;

/// Errors: those of tuning::tune_steps.
Result<LayerTuning> tune_chain(const Lab& lab, const ChainData& data, const LayerTuneRequest& request,
                               const Phase& phase);

/// The choices to record, or those that are best alone if they gain no more than noise over the overlap off.
TunedChain tuned_chain(const Lab& lab, const LayerTuning& tuning, const Times& times);

}  // namespace sluice::bench
