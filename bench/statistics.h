// SPDX-License-Identifier: Apache-2.0
// Order statistics of a few timings, and means of ratios. Pure; used by measure.cc and record.cc.
#pragma once

#include <vector>

namespace sluice::bench {

/// Middle and spread of one contender's rounds, in microseconds a launch.
struct Spread {
  double median = 0;
  double p10 = 0;
  double p90 = 0;
};

/// The q-quantile (0..1) with linear interpolation between neighbours; 0 for no values.
double quantile(std::vector<double> values, double q);
Spread spread_of(const std::vector<double>& values);

/// Geometric mean of the positive values; 0 if there is none.
double geometric_mean(const std::vector<double>& values);
/// 0 for no values.
double least(const std::vector<double>& values);

}  // namespace sluice::bench
