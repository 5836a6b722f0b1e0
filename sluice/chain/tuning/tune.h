// SPDX-License-Identifier: Apache-2.0
// The tuner of chains on a GPU: the search of search.h over captured chains of a caller's steps. Chain::tune
// and Chain::guarded run it with different time budgets. `sluice chain --tune` calls it through bench/chain.
#pragma once

#include <sluice/chain/chain.h>
#include <sluice/chain/tuning/search.h>
#include <sluice/plan/records/tuned_chain.h>

namespace sluice::tuning {

/// Steps that repeat, such as those of a model's layers: step i equals step i - period where begin + period
/// <= i < end. Steps outside of begin..end are planned as requested, or without overlap.
struct Repeats {
  size_t begin = 0, period = 0, end = 0;

  bool holds(size_t step) const { return begin <= step && step < end; }
  size_t place_of(size_t step) const { return (step - begin) % period; }
  bool operator==(const Repeats&) const = default;
};
/// Returns the repetition that covers the most steps, if it covers half of them; else all steps once. Equal
/// steps between equal neighbours must have equal choices, or a record could not tell them apart.
Repeats find_repeats(std::span<const ChainStep> steps);

struct Tuning {
  Found found;
  LayerChoice alone;             // the kernels that are fastest alone, without overlap
  std::vector<ChainStep> steps;  // all of the caller's, without overlaps of their own
  std::vector<ChainStep> layer;  // the steps that the choices are for
  Repeats repeats;
  // One entry per step. The choices outside of the repetition: as requested, and without overlap.
  StepChoices outside, outside_alone;
};

struct TuneRequest {
  ChainTuning tuning{};
  bool cold = true;  // refuse weights that L2 holds
};
/// Searches on the steps' own memory. `known`: the plan of plan_chain() for request.tuning.start. Errors:
/// invalid_argument (weights that L2 holds); those of preparing and capturing the first chain; driver and
/// toolchain at any time.
Result<Tuning> tune_steps(const Device& device, std::span<const ChainStep> steps, const ChainPlan& known,
                          PlanMemo& memo, const TuneRequest& request);

/// Returns the choices for all steps of a chain, with `layer` in each repetition. If `layer` is `alone`,
/// steps outside of the repetition have no overlap either; otherwise they are as requested.
StepChoices choices_of(const Tuning& tuning, const LayerChoice& layer);
/// Returns the record of a search. `us` and `off_us` are times per layer.
TunedChain record_of(const Device& device, const Tuning& tuning, bool gains, double us, double off_us);
/// Smallest weights that a tuner accepts, as a multiple of L2.
inline constexpr i64 kLeastL2Times = 3;

}  // namespace sluice::tuning
