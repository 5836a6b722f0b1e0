// SPDX-License-Identifier: Apache-2.0
// Timing. A contender's launches are captured once into a graph; one run of the graph is a replay. Replays of
// all contenders are timed in turn, each after a rest and an untimed replay, so that clocks are equal and the
// queue is full. Times are GPU times between two events.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "bench/contender/contender.h"
#include "bench/lab.h"

namespace sluice::bench {

struct Replay {
  std::function<Result<void>(Stream)> launch;  // launches the graph
  int launches = 1;
};

/// How one measurement in turn runs.
struct Rounds {
  int count = 7;
  double rest_ms = 20;
  bool clocks = false;                     // count the SMs' clock in each round
  std::vector<Sample>* samples = nullptr;  // not null: NVML is read once a round, during the first replay
};

/// One replay's rounds, in order.
struct Timed {
  std::vector<double> us;      // one launch
  std::vector<double> sm_mhz;  // empty if not requested
};

/// Launches the contender a few times and returns the launches that fill `replay_us`: at least one for each
/// copy, at most kMaxLaunches. Errors: those of the launch or the kernel.
inline constexpr int kMaxLaunches = 512;
Result<int> launches_for(const Lab& lab, const Contender& contender, int copies, double replay_us);

/// Captures `launches` launches on copies 0, 1, ... in turn as one graph.
Result<Replay> capture_replay(const Lab& lab, const Contender& contender, int copies, int launches);

/// Times all replays in turn, round after round.
Result<std::vector<Timed>> time_in_turn(const Lab& lab, std::span<const Replay> replays,
                                        const Rounds& rounds);

/// Median CPU time of one launch call into an empty stream, microseconds.
Result<double> host_cost_us(const Lab& lab, const Contender& contender);

}  // namespace sluice::bench
