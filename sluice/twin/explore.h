// SPDX-License-Identifier: Apache-2.0
// Runs a scenario in many interleavings and reports the first broken rule: exhaustively where the states can
// be counted, else randomly with a replayable seed. Called by tests/protocol.
//   const auto all = explore_all(record_gemm(scenario), {.max_states = 1'000'000});
//   const auto some = explore_random(record<NoTurnWait>(scenario), {.seed = 1, .schedules = 1000});
#pragma once

#include <sluice/twin/recording.h>

namespace sluice::twin {

struct Exploration {
  i64 states = 0;        // distinct states, over all clusters (told apart by a 64-bit hash)
  i64 transitions = 0;   // steps taken
  i64 schedules = 0;     // complete interleavings: random ones run, or ends that the search reached
  i64 depth = 0;         // longest interleaving
  bool complete = true;  // every reachable state was seen
  std::optional<Failure> failure;
};

struct SearchLimits {
  i64 max_states = 10'000'000;  // for each cluster
};
struct RandomSearch {
  u64 seed = 1;
  i64 schedules = 1000;       // for each cluster; the i-th uses seed + i
  bool count_states = false;  // costs a hash a step
};

Exploration explore_all(const Recording& recording, const SearchLimits& limits = {});
Exploration explore_random(const Recording& recording, const RandomSearch& search = {});

}  // namespace sluice::twin
