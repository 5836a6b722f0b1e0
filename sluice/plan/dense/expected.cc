// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <sluice/plan/dense/cluster_grid.h>

namespace sluice {

Problem expected(const Problem& p) {
  if (!reads_table(p) || p.batch == 0) return p;
  Problem likely = p;
  likely.groups = {};
  if (sums_groups(p)) {
    likely.k = ceil_div(p.k, p.batch);
    return likely;
  }
  const double groups = static_cast<double>(p.batch);
  const double used = groups * (1 - std::pow(1 - 1 / groups, static_cast<double>(p.m)));
  likely.batch = std::clamp<i64>(std::llround(used), std::min<i64>(p.m, 1), p.batch);
  likely.m = likely.batch == 0 ? 0 : ceil_div(p.m, likely.batch);
  return likely;
}

}  // namespace sluice
