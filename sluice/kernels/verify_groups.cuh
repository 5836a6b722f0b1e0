// SPDX-License-Identifier: Apache-2.0
// The verifier's view of a table of groups (spec/groups.h).
#pragma once

#include <sluice/kernels/verify_params.h>

namespace sluice::verify {

/// The rows, or the part of k, of each group; unused with slots.
struct GroupList {
  int begin[kMostGroups], end[kMostGroups];
};

SLUICE_DEVICE void read_groups(const CheckParams& p, GroupList& groups) {
  const int count = static_cast<int>(p.problem.batch), total = static_cast<int>(group_total(p.problem));
  for (int g = threadIdx.x; g < count; g += kCheckThreads) groups.end[g] = p.groups[g];
  __syncthreads();
  for (int g = 0, before = 0; threadIdx.x == 0 && g < count; ++g) {
    const int number = groups.end[g];
    const GroupRows rows =
        group_rows_of(p.problem.groups.kind, p.problem.groups.pitch, total, g, number, before);
    before = max(before, min(number, total));
    groups.begin[g] = rows.begin, groups.end[g] = rows.end;
  }
  __syncthreads();
}

/// Calls visit(group, low, high) for the rows low to high - 1 of each group that has some of `row` to `end`
/// - 1.
template <class Visit>
SLUICE_DEVICE void visit_groups(const CheckParams& p, const GroupList& groups, i64 row, i64 end,
                                const Visit& visit) {
  const int count = static_cast<int>(p.problem.batch);
  if (by_slots(p.problem)) {
    for (; row < end; ++row)
      if (const int group = group_of_slot(p.groups[row], count); group >= 0) visit(group, row, row + 1);
    return;
  }
  for (int g = 0; g < count; ++g) {
    const i64 low = groups.begin[g] > row ? groups.begin[g] : row;
    const i64 high = groups.end[g] < end ? groups.end[g] : end;
    if (low < high) visit(g, low, high);
  }
}

}  // namespace sluice::verify
