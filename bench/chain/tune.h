// SPDX-License-Identifier: Apache-2.0
// The tuner of chains on a GPU: the search of chain/search.h over a captured chain of layers with distinct
// weights. Used by chain/session.cc.
#pragma once

#include <sluice/tools.h>

#include "bench/chain/data.h"
#include "bench/chain/search.h"
#include "bench/session.h"

namespace sluice::bench {

/// `choices`, of each step of a layer in order, put into all layers of a chain; its ends wait and trigger as
/// they must.
void put_choices(std::span<const TunedStep> choices, std::vector<ChainStep>& steps);

struct ChainTuning {
  Found found;
  LayerChoice alone;             // not overlapped, kernels that are best alone
  std::vector<ChainStep> layer;  // that the choices are of
  std::string name;              // of the chain
};

/// Microseconds a layer, timed in turn.
struct Times {
  double tuned_us = 0, off_us = 0;
};
struct TuneRequest {
  Fusion fusion = Fusion::none;
  double budget_s = 0;  // at most
};

/// A tuned chain has so many layers at least, and weights of so many times L2, or it reads them from there.
inline constexpr int kLeastTunedLayers = 4;
inline constexpr int kLeastL2Times = 3;

/// Errors: invalid_argument (too few layers); those of preparing and capturing the first chain; driver and
/// toolchain, whenever they come. Changes that no chain can be made of are counted in Found.
Result<ChainTuning> tune_chain(const Lab& lab, const ChainData& data, const TuneRequest& request,
                               const Workspace& workspace, const Phase& phase);

/// What is worth keeping: the choices, or `alone` if they do not gain more than the noise on the overlap off.
TunedChain tuned_chain(const Lab& lab, const ChainTuning& tuning, const Times& times);

}  // namespace sluice::bench
