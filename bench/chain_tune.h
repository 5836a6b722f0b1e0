// SPDX-License-Identifier: Apache-2.0
// The tuner of chains: what is best alone is not what is best between neighbours. For each step of a layer it
// tries kernels (the planner's first few), waits, triggers and hand-offs, one change at a time, on a captured
// chain of layers with distinct weights, and keeps what gains more than the noise. Used by chain_session.cc.
#pragma once

#include "bench/chain_data.h"
#include "bench/session.h"

namespace sluice::bench {

/// What a tuned chain does at each step of a layer, in order.
struct StepChoice {
  PlanOverrides overrides;  // of a product
  Overlap overlap{};
  i64 hand_off_bytes = 0;

  bool operator==(const StepChoice&) const = default;
};

/// `choices` put into all layers of a chain; its ends wait and trigger as they must.
void put_choices(std::span<const StepChoice> choices, std::vector<ChainStep>& steps);

struct ChainTuning {
  std::vector<StepChoice> choices;
  double start_us = 0, tuned_us = 0;  // of a layer
  int tried = 0, kept = 0;
};

/// At most `budget_s` seconds. Of two states that are as good, the one with less overlap stays. Errors: those
/// of preparing and capturing the first chain; a change that fails later is left out.
Result<ChainTuning> tune_chain(const Lab& lab, const ChainData& data, const Workspace& workspace,
                               double budget_s, const Phase& phase);

}  // namespace sluice::bench
