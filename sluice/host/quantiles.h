// SPDX-License-Identifier: Apache-2.0
// Order statistics of a few timings. Medians are used rather than means: one preempted round must not move a
// result. Pure; used by races (host/ops), the tuner of chains and bench.
#pragma once

#include <vector>

namespace sluice {

/// Middle and spread of the rounds of one contender, in the unit of the rounds.
struct Quantiles {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
};

/// Returns the q-quantile (0..1), interpolated between neighbours; 0 for no values.
double quantile(std::vector<double> values, double q);
Quantiles quantiles_of(const std::vector<double>& values);

/// A smaller gain is noise between two runs of one kernel.
inline constexpr double kSafeGain = 0.01;
/// Returns whether a contender may take the incumbent's place: its median is less by kSafeGain, and its slow
/// rounds (p90) are faster than the incumbent's median. Races of plans and guards of chains share it.
bool is_safely_faster(const Quantiles& contender, const Quantiles& incumbent);

}  // namespace sluice
