// SPDX-License-Identifier: Apache-2.0
// Means of ratios; for order statistics of times see sluice/host/quantiles.h. Used by records and tables.
#pragma once

#include <vector>

#include <sluice/tools.h>

namespace sluice::bench {

/// Returns the geometric mean of the positive values; 0 if there is none.
double geometric_mean(const std::vector<double>& values);
/// Returns the smallest value; 0 if there is none.
double least(const std::vector<double>& values);

}  // namespace sluice::bench
