// SPDX-License-Identifier: Apache-2.0
// Times contenders. The launches of each are captured once into a graph; one run of the graph is a replay.
// Replays of all contenders are timed in turn. Each follows a rest and an untimed replay, so that clocks are
// equal and the launch queue is full. Times are GPU times between two events.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "bench/contender/contender.h"
#include "bench/lab.h"

namespace sluice::bench {

struct Replay {
  std::function<Result<void>(Stream)> launch;  // launches the captured graph
  int launches = 1;
};

/// Settings of one measurement of several contenders in turn.
struct Rounds {
  int count = 7;
  double rest_ms = 20;
  bool clocks = false;                     // true: measure the SM clock in each round
  std::vector<Sample>* samples = nullptr;  // if not null: read NVML once per round, during the first replay
};

/// Results of one contender, by round.
struct Timed {
  std::vector<double> us;      // microseconds per launch
  std::vector<double> sm_mhz;  // empty if clocks are not measured
};

/// Launches the contender a few times and returns how many launches take `replay_us`. It is at least one per
/// operand set, and at most kMaxLaunches. Errors: those of the launch or the kernel.
inline constexpr int kMaxLaunches = 512;
Result<int> launches_for(const Lab& lab, const Contender& contender, int copies, double replay_us);

/// Captures `launches` launches as one graph. They use operand sets 0, 1, ... in turn.
Result<Replay> capture_replay(const Lab& lab, const Contender& contender, int copies, int launches);

/// Times all replays in turn: each of them once per round.
Result<std::vector<Timed>> time_in_turn(const Lab& lab, std::span<const Replay> replays,
                                        const Rounds& rounds);

/// Median CPU time of one launch call into an empty stream, in microseconds.
Result<double> host_cost_us(const Lab& lab, const Contender& contender);

}  // namespace sluice::bench
