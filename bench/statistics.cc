// SPDX-License-Identifier: Apache-2.0
// Medians are used rather than means: one preempted round must not move a result.
#include "bench/statistics.h"

#include <algorithm>
#include <cmath>

namespace sluice::bench {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double part = position - static_cast<double>(below);
  return values[below] * (1 - part) + values[above] * part;
}

Spread spread_of(const std::vector<double>& values) {
  return {.median = quantile(values, 0.5), .p10 = quantile(values, 0.1), .p90 = quantile(values, 0.9)};
}

double geometric_mean(const std::vector<double>& values) {
  double log_sum = 0;
  int count = 0;
  for (const double value : values) {
    if (value <= 0) continue;
    log_sum += std::log(value);
    ++count;
  }
  return count == 0 ? 0 : std::exp(log_sum / count);
}

double least(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

}  // namespace sluice::bench
