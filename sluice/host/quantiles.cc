// SPDX-License-Identifier: Apache-2.0
#include <sluice/host/quantiles.h>

#include <algorithm>
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

}  // namespace sluice
