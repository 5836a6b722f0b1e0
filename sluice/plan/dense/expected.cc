// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <sluice/plan/dense/cluster_grid.h>

namespace sluice {

Problem expected(const Problem& p) {
  Problem likely = p;
  likely.groups = {};
  if (by_slots(p)) {  // a product per row, whatever it reads
    likely.batch = p.m, likely.m = std::min<i64>(p.m, 1);
    return likely;
  }
  if (!reads_table(p) || p.batch == 0) return p;
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

std::vector<int> even_table(const Problem& p) {
  std::vector<int> table;
  if (by_slots(p)) {
    for (i64 slot = 0; slot < p.m; ++slot)
      table.push_back(static_cast<int>(slot % std::max<i64>(p.batch, 1)));
    return table;
  }
  const i64 total = group_total(p), pitch = p.groups.pitch, units = ceil_div(total, pitch);
  for (i64 g = 0; g < p.batch; ++g) {
    const i64 room = std::clamp<i64>(total - g * pitch, 0, pitch), until = (g + 1) * units / p.batch * pitch;
    table.push_back(static_cast<int>(p.groups.kind == GroupKind::counts ? room : std::min(until, total)));
  }
  return table;
}

}  // namespace sluice
