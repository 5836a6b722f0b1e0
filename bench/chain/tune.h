// SPDX-License-Identifier: Apache-2.0
// The tuner of chains: what is best alone is not what is best between neighbours. For each step of a layer it
// tries kernels (the planner's first few), waits, triggers and hand-offs, one change at a time, on a captured
// chain of layers with distinct weights, and keeps what gains more than the noise. Used by chain/session.cc.
#pragma once

#include <sluice/records/tuned_chain.h>

#include "bench/chain/data.h"
#include "bench/session.h"

namespace sluice::bench {

/// `choices`, of each step of a layer in order, put into all layers of a chain; its ends wait and trigger as
/// they must.
void put_choices(std::span<const TunedStep> choices, std::vector<ChainStep>& steps);

struct ChainTuning {
  std::vector<TunedStep> choices, alone;  // alone: not overlapped, kernels that are best alone
  std::vector<ChainStep> layer;           // that they are of
  double start_us = 0, tuned_us = 0;      // of a layer
  int tried = 0, kept = 0;
  std::string name;  // of the chain
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

/// A change stays if it gains more than the noise; at the end, with time left, overlaps that gain nothing are
/// taken off again. Errors: invalid_argument (too few layers); those of preparing and capturing the first
/// chain; a change that fails later is left out.
Result<ChainTuning> tune_chain(const Lab& lab, const ChainData& data, const TuneRequest& request,
                               const Workspace& workspace, const Phase& phase);

/// What is worth keeping: the choices, or `alone` if they do not gain more than the noise on the overlap off.
TunedChain tuned_chain(const Lab& lab, const ChainTuning& tuning, const Times& times);

}  // namespace sluice::bench
