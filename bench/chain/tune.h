// SPDX-License-Identifier: Apache-2.0
// The tuner of chains on the bench's layers. Used by chain/session.cc.
#pragma once

#include <sluice/tools.h>

#include "bench/chain/data.h"
#include "bench/session.h"

namespace sluice::bench {

/// Applies the choices for a layer's steps to all layers of a chain. The first and the last step keep the
/// wait and trigger that the ends of a chain need.
void put_choices(std::span<const TunedStep> choices, std::vector<ChainStep>& steps);

struct LayerTuning {
  tuning::Tuning tuning;
  std::string name;                   // the chain's
  double start_us = 0, tuned_us = 0;  // us per layer, measured in one run
};

/// Times in us per layer, measured in turn.
struct Times {
  double tuned_us = 0, off_us = 0;
};
struct LayerTuneRequest {
  Fusion fusion = Fusion::none;
  double budget_s = 0;  // at most
  std::function<void(const std::string& json)> trials{};
};

/// The least number of layers of a tuned chain; with fewer, weights would stay in L2.
inline constexpr int kLeastTunedLayers = 4;

/// Errors: those of tuning::tune_steps.
Result<LayerTuning> tune_chain(const Lab& lab, const ChainData& data, const LayerTuneRequest& request,
                               const Phase& phase);

/// Returns the choices to record. If they are not faster than no overlap by more than noise, these are the
/// kernels that are fastest alone.
TunedChain tuned_chain(const Lab& lab, const LayerTuning& tuning, const Times& times);

}  // namespace sluice::bench
