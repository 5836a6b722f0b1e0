// SPDX-License-Identifier: Apache-2.0
// The search of the chain tuner, as kernels that are best alone are not best between neighbours. It walks
// named axes once, one change at a time, and keeps changes that gain more than noise. At the end it races the
// result against the start. Each change is a row of an axis, so two runs try the same ones. Pure but for
// ChainTimer, whose times tests set (tests/unit/chain_search_test.cc). Called by chain/tune.cc.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/chain/step_kernels.h"
#include "bench/session.h"
#include "bench/statistics.h"

namespace sluice::bench {

/// The choices for the steps of a layer, in order.
using LayerChoice = std::vector<TunedStep>;

/// Two chains timed in turn, microseconds a layer.
struct Raced {
  Spread incumbent, candidate;
};

/// The machine that a search runs on.
class ChainTimer {
 public:
  virtual ~ChainTimer() = default;

  virtual double now_s() = 0;  // never goes back
  /// Announces the next choices of a step, so that their kernels are compiled together.
  virtual void expect(size_t step, std::span<const TunedStep> choices) = 0;
  /// Errors: driver and toolchain end a search; any other refuses only the candidate.
  virtual Result<Raced> race(const LayerChoice& incumbent, const LayerChoice& candidate, int rounds) = 0;
};

/// The steps of a layer and where a search begins.
struct SearchSpace {
  std::vector<std::string> names;    // one a step
  std::vector<StepKernels> kernels;  // one a step; empty for companions
  LayerChoice alone;                 // kernels that are best alone, no overlap
  LayerChoice recorded;              // choices of records; weights_first where there are none
};

/// The outcome of an axis.
struct AxisGain {
  std::string name;
  int tried = 0, kept = 0;
  double gain = 1;  // product of the kept gains: 1.05 is five per cent less time
};

struct Found {
  LayerChoice choices;
  double start_us = 0, tuned_us = 0;  // time of a layer for `alone` and for `choices`, in one race
  std::vector<AxisGain> axes;         // in the order of the search
  int refused = 0;                    // changes that gave no valid chain
  std::string why_refused;            // the first of them and its error

  int tried() const;
  int kept() const;
};

/// Starts no change after `budget_s` is used up, but always confirms. Errors: those that end a search.
Result<Found> search_chain(ChainTimer& timer, const SearchSpace& space, double budget_s, const Phase& phase);

/// The least share a change must gain: less is noise between two replays of one chain.
inline constexpr double kLeastGain = 0.004;

}  // namespace sluice::bench
