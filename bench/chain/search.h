// SPDX-License-Identifier: Apache-2.0
// The search of the chain tuner: what is best alone is not what is best between neighbours. It walks along
// named axes once, one change at a time, keeps what gains more than the noise, and confirms the result in one
// race with what it began with. Every change is a row of an axis, so two runs try the same ones. Pure but for
// ChainTimer: tests make its times up (tests/unit/chain_search_test.cc). Called by chain/tune.cc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/chain/step_kernels.h"
#include "bench/session.h"
#include "bench/statistics.h"

namespace sluice::bench {

/// What is chosen for each step of a layer, in order.
using LayerChoice = std::vector<TunedStep>;

/// Two chains timed in turn, microseconds a layer.
struct Raced {
  Spread incumbent, candidate;
};

/// What the search needs of a machine.
class ChainTimer {
 public:
  virtual ~ChainTimer() = default;

  virtual double now_s() = 0;  // of a clock that never goes back
  /// Told which choices of a step come next, so that their kernels are compiled side by side.
  virtual void expect(size_t step, std::span<const TunedStep> choices) = 0;
  /// Errors: driver or toolchain, which end a search; any other refuses the candidate alone.
  virtual Result<Raced> race(const LayerChoice& incumbent, const LayerChoice& candidate, int rounds) = 0;
};

/// The steps of a layer and where a search begins.
struct SearchSpace {
  std::vector<std::string> names;    // of the steps
  std::vector<StepKernels> kernels;  // of the steps; products have some
  LayerChoice alone;                 // kernels that are best alone, nothing overlapped
  LayerChoice recorded;              // what records say; as weights_first where they say nothing
};

/// What came of an axis.
struct AxisGain {
  std::string name;
  int tried = 0, kept = 0;
  double gain = 1;  // product of the gains that were kept: 1.05 is five per cent less time
};

struct Found {
  LayerChoice choices;
  double start_us = 0, tuned_us = 0;  // a layer of `alone` and of `choices`, of one race
  std::vector<AxisGain> axes;         // in the order of the walk
  int refused = 0;                    // changes that no chain could be made of
  std::string why_refused;            // the first of them, and why

  int tried() const;
  int kept() const;
};

/// Nothing is tried once `budget_s` is used up; the confirmation always is. Errors: those that end a search.
Result<Found> search_chain(ChainTimer& timer, const SearchSpace& space, double budget_s, const Phase& phase);

/// The share that a change must gain at least: less is noise between two replays of one chain.
inline constexpr double kLeastGain = 0.004;

}  // namespace sluice::bench
