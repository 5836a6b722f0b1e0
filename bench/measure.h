// SPDX-License-Identifier: Apache-2.0
// Timing: a contender's launches are captured into a graph once (a replay), and replays of all contenders are
// timed in turn, with a rest and an untimed replay before each, so that all meet the same clocks and a full
// queue. Times are GPU times between two events.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "bench/contender.h"
#include "bench/lab.h"

namespace sluice::bench {

struct Replay {
  std::function<Result<void>(Stream)> launch;  // of a graph
  int launches = 1;
};

/// How one turn-about measurement runs.
struct Rounds {
  int count = 7;
  double rest_ms = 20;
};

/// Launches the contender a few times and returns how many launches make a replay of `replay_us`: at least
/// one for each copy, at most kMaxLaunches. Errors: what the launch or the kernel reports.
inline constexpr int kMaxLaunches = 512;
Result<int> launches_for(const Lab& lab, const Contender& contender, int copies, double replay_us);

/// `launches` launches on copies 0, 1, ... in turn, as one graph.
Result<Replay> capture_replay(const Lab& lab, const Contender& contender, int copies, int launches);

/// Microseconds per launch: one vector per replay, one value per round. With `samples`, the clocks are read
/// once a round, while the GPU works for the contender whose turn is first.
Result<std::vector<std::vector<double>>> time_in_turn(const Lab& lab, std::span<const Replay> replays,
                                                      const Rounds& rounds, std::vector<Sample>* samples);

/// Median CPU time of one launch call into an empty stream, microseconds.
Result<double> host_cost_us(const Lab& lab, const Contender& contender);

}  // namespace sluice::bench
