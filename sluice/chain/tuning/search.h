// SPDX-License-Identifier: Apache-2.0
// The search of the chain tuner. It is needed because the kernels that are fastest alone are not the fastest
// between neighbours. It goes through named axes once, one change at a time, and keeps changes that gain more
// than noise. The axes that change all steps together come first and are always tried; they give most of the
// gain (docs/findings/untuned-chains.md). The others are tried while the budget lasts. At the end, the result
// is timed against the start. All timing is in ChainTimer, which tests replace
// (tests/unit/chain_search_test.cc). Called by tune.cc.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/chain.h>
#include <sluice/quantiles.h>

namespace sluice::tuning {

// The kernels to try for a step are the planner's candidates, best estimate first, and the best of each kind.
// Kinds differ in how they share an SM with a neighbour. They are needed because the planner estimates a
// kernel that runs alone, which favours kernels that occupy a whole SM.

/// A kernel as records name it; empty for companions, which have only one.
using StepKernel = std::optional<TunedChoice>;

enum class KernelKind : u8 {
  roles,        // warp-specialised: its CTA occupies a whole SM
  plain,        // mma.sync: few rows, little shared memory
  halves,       // uses at most half of an SM's shared memory and registers, so a neighbour's CTA also fits
  wholes,       // uses more
  deep_halves,  // halves whose rings hold much of the weights before the previous launch has ended
  deep,         // wholes with such rings
};
KernelKind kind_of(const Plan& plan);

struct StepKernels {
  std::vector<StepKernel> all;                // best estimate first; empty for companions
  std::map<KernelKind, StepKernel> of_kinds;  // the best estimate of each kind
};
/// Errors: those of gemm::candidates.
Result<StepKernels> kernels_of(const ChainStep& step, const DeviceInfo& device);

/// The choices for the steps of a layer, in order.
using LayerChoice = std::vector<TunedStep>;

/// Two chains timed in turn, microseconds.
struct Raced {
  Quantiles incumbent, candidate;
};

/// A kernel that a step may be tried with soon.
struct Expected {
  size_t step = 0;
  TunedStep choice{};
};

/// The machine that a search runs on.
class ChainTimer {
 public:
  virtual ~ChainTimer() = default;

  virtual double now_s() = 0;  // never goes back
  /// Announces what is tried next, so that its kernels are compiled together.
  virtual void expect(std::span<const Expected> next) = 0;
  /// Errors: driver and toolchain end a search; any other refuses only the candidate.
  virtual Result<Raced> race(const LayerChoice& incumbent, const LayerChoice& candidate, int rounds) = 0;
  /// Compares the candidate's results with those of the plain chain. Errors as in race(): a candidate whose
  /// results differ is refused.
  virtual Result<void> check(const LayerChoice& candidate) = 0;
};

/// The steps of a layer and where a search begins.
struct SearchSpace {
  std::vector<std::string> names;    // one per step
  std::vector<StepKernels> kernels;  // one per step; empty for companions
  std::vector<i64> weight_bytes;     // one per step; steps with the most weights are tried first
  LayerChoice alone;                 // the kernels that are fastest alone, without overlap
  LayerChoice asked;                 // choices by the caller's options and records
  LayerChoice planned;               // choices of ChainOverlap::tuned
};

/// A change that was timed.
struct Trial {
  std::string axis, what;
  const LayerChoice& choices;  // with the change
  Raced us;
  bool kept = false;
};

struct SearchRequest {
  double budget_s = 0;  // for the axes that change single steps
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  std::function<void(const Trial&)> log = [](const Trial&) {};
};

/// The outcome of an axis.
struct AxisGain {
  std::string name;
  int tried = 0, kept = 0;
  double gain = 1;  // product of the kept gains: 1.05 is five per cent less time
};

struct Found {
  LayerChoice choices;
  Raced confirmed;             // final times of `alone` and `choices`, measured in turn
  std::vector<AxisGain> axes;  // in the order of the search
  int refused = 0;             // changes after which the chain was invalid or had other results
  std::string why_refused;     // the first of them and its error

  int tried() const;
  int kept() const;
};

/// Starts no change of a single step after the budget is used up, but always confirms. Errors: those that end
/// a search.
Result<Found> search_chain(ChainTimer& timer, const SearchSpace& space, const SearchRequest& request);

/// The least share a change must gain: less is noise between two replays of one chain.
inline constexpr double kLeastGain = 0.004;

}  // namespace sluice::tuning
