// SPDX-License-Identifier: Apache-2.0
// The tuner of chains on a GPU: the search of chain/search.h over a captured chain of layers with distinct
// weights. Used by chain/session.cc.
#pragma once

#include <sluice/tools.h>

#include "bench/chain/data.h"
#include "bench/chain/search.h"
#include "bench/session.h"

namespace sluice::bench {

/// Puts the choices for a layer's steps into all layers of a chain; the chain's ends wait and trigger as they
/// must.
void put_choices(std::span<const TunedStep> choices, std::vector<ChainStep>& steps);

struct ChainTuning {
  Found found;
  LayerChoice alone;             // kernels that are best alone, no overlap
  std::vector<ChainStep> layer;  // the steps that the choices are for
  std::string name;              // the chain's
};

/// Microseconds a layer, timed in turn.
struct Times {
  double tuned_us = 0, off_us = 0;
};
struct TuneRequest {
  Fusion fusion = Fusion::none;
  double budget_s = 0;  // at most
};

/// Minima of a tuned chain: so many layers, and weights of so many times L2, or L2 serves them.
inline constexpr int kLeastTunedLayers = 4;
inline constexpr int kLeastL2Times = 3;

/// Errors: invalid_argument (too few layers); those of preparing and capturing the first chain; driver and
/// toolchain at any time. Found counts changes that give no valid chain.
Result<ChainTuning> tune_chain(const Lab& lab, const ChainData& data, const TuneRequest& request,
                               const Workspace& workspace, const Phase& phase);

/// The choices to record, or `alone` if they gain no more than noise over the overlap off.
TunedChain tuned_chain(const Lab& lab, const ChainTuning& tuning, const Times& times);

}  // namespace sluice::bench
