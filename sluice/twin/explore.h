// SPDX-License-Identifier: Apache-2.0
// Runs a scenario in many interleavings and reports the first broken rule: in all interleavings if there are
// few enough states, else in random ones with a reproducible seed. Called by tests/protocol.
//   const auto all = explore_all(record_gemm(scenario), {.max_states = 1'000'000});
//   const auto some = explore_random(record<NoTurnWait>(scenario), {.seed = 1, .schedules = 1000});
#pragma once

#include <sluice/twin/recording.h>

namespace sluice::twin {

struct Exploration {
  i64 states = 0;        // distinct states (by a 64-bit hash), over all clusters
  i64 transitions = 0;   // steps taken
  i64 schedules = 0;     // complete interleavings: random ones, or those that the search followed to the end
  i64 depth = 0;         // longest interleaving
  bool complete = true;  // every reachable state was seen
  std::optional<Failure> failure;
};

struct SearchLimits {
  i64 max_states = 10'000'000;  // per cluster
};
struct RandomSearch {
  u64 seed = 1;
  i64 schedules = 1000;       // per cluster; the i-th uses seed + i
  bool count_states = false;  // costs one hash per step
};

Exploration explore_all(const Recording& recording, const SearchLimits& limits = {});
Exploration explore_random(const Recording& recording, const RandomSearch& search = {});

}  // namespace sluice::twin
