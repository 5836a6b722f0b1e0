// SPDX-License-Identifier: Apache-2.0
// Runs the tuner of chains on the bench's layers. Used by chain/session.cc.
#pragma once

#include <sluice/bench/session.h>
#include <sluice/chain/tuning/tune.h>

#include "bench/chain/data.h"
#include "bench/lab.h"

namespace sluice::bench {

/// Applies the choices for one layer's steps to all layers of a chain. The first and last step of the chain
/// keep the wait and trigger that a chain's ends need.
void put_choices(std::span<const TunedStep> choices, std::vector<ChainStep>& steps);

struct LayerTuning {
  tuning::Tuning tuning;
  std::string name;                   // the chain's
  double start_us = 0, tuned_us = 0;  // microseconds per layer, both measured in the same run
};

/// Times per layer in microseconds, from replays in turn.
struct Times {
  double tuned_us = 0, off_us = 0;
};
struct LayerTuneRequest {
  Fusion fusion = Fusion::none;
  double budget_s = 0;  // upper limit of the search time
  std::function<void(const std::string& json)> trials{};
};

/// Errors: those of tuning::tune_steps.
Result<LayerTuning> tune_chain(const Lab& lab, const ChainData& data, const LayerTuneRequest& request,
                               const Phase& phase);

/// Returns the choices to record. If they do not beat the chain without overlap by more than noise, returns
/// the kernels that are fastest alone instead.
TunedChain tuned_chain(const Lab& lab, const LayerTuning& tuning, const Times& times);

}  // namespace sluice::bench
