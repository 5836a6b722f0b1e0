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
  double least_rest_ms = 0;  // idle time before each replay, if Rounds::rest_ms is less
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

/// Captures `launches` launches as one graph. They use operand sets 0, 1, ... in turn.
Result<Replay> capture_replay(const Lab& lab, const Contender& contender, int copies, int launches);

/// Captures as many launches as take `replay_us`: at least two, and one per operand set; at most
/// kMaxLaunches. A contender of more than kLongLaunchUs gets replays of 3 ms and rests of 20 ms at least, and
/// its first replay is thrown away. Else its times are up to 29 % off (docs/findings/long-launches.md).
/// Errors: those of the launch or the kernel.
inline constexpr int kMaxLaunches = 512;
inline constexpr double kLongLaunchUs = 160;
Result<Replay> replay_for(const Lab& lab, const Contender& contender, int copies, double replay_us);

/// Times all replays in turn: each of them once per round.
Result<std::vector<Timed>> time_in_turn(const Lab& lab, std::span<const Replay> replays,
                                        const Rounds& rounds);

/// Median CPU time of one launch call into an empty stream, in microseconds.
Result<double> host_cost_us(const Lab& lab, const Contender& contender);

}  // namespace sluice::bench
