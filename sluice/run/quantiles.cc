// SPDX-License-Identifier: Apache-2.0
#include <sluice/quantiles.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace sluice {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const std::size_t below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  const double part = position - static_cast<double>(below);
  return values[below] * (1 - part) + values[above] * part;
}

Quantiles quantiles_of(const std::vector<double>& values) {
  return {.median = quantile(values, 0.5), .p10 = quantile(values, 0.1), .p90 = quantile(values, 0.9)};
}

bool is_safely_faster(const Quantiles& contender, const Quantiles& incumbent) {
  return contender.median <= (1 - kSafeGain) * incumbent.median && contender.p90 < incumbent.median;
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

}  // namespace sluice
