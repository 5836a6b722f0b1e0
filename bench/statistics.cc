// SPDX-License-Identifier: Apache-2.0
#include "bench/statistics.h"

#include <algorithm>
#include <cmath>

namespace sluice::bench {

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
