// SPDX-License-Identifier: Apache-2.0
// Statistics of a few timings. Medians are used instead of means, so that one preempted round does not
// change a result. Used by races (run/ops), the tuner of chains and bench.
#pragma once

#include <vector>

namespace sluice {

/// Median and spread of one contender's rounds, in the unit of the rounds.
struct Quantiles {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
};

/// Returns the q-quantile (q in 0..1), interpolated between neighbouring values; 0 if there are none.
double quantile(std::vector<double> values, double q);
Quantiles quantiles_of(const std::vector<double>& values);

/// Returns the geometric mean of the positive values; 0 if there is none.
double geometric_mean(const std::vector<double>& values);
/// Returns the smallest value; 0 if there is none.
double least(const std::vector<double>& values);

/// A smaller gain is noise between two runs of one kernel.
inline constexpr double kSafeGain = 0.01;
/// Returns whether a contender may take the incumbent's place: its median is less by kSafeGain, and its slow
/// rounds (p90) are faster than the incumbent's median. Races of plans and guards of chains share it.
bool is_safely_faster(const Quantiles& contender, const Quantiles& incumbent);

}  // namespace sluice
