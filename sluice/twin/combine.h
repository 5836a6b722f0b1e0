// SPDX-License-Identifier: Apache-2.0
// Explores the split-K reduction across clusters. The clusters that share a tile (peers) write partial sums;
// the last one to arrive must see all of them. Simulator runs one cluster, and tries both outcomes of "am I
// the last?". Here all peers run, but only the steps from writing partial sums to adding them.
//   const auto all = explore_combine(record_gemm(scenario), {.launches = 2});
#pragma once

#include <sluice/twin/explore.h>

namespace sluice::twin {

struct CombineSearch {
  i64 max_states = 3'000'000;  // per set of groups that share slots or counters
  i64 schedules = 0;           // 0: all schedules; else this many random ones per set
  u64 seed = 1;
  int launches = 2;  // consecutive launches that use the same counters
};

Exploration explore_combine(const Recording& recording, const CombineSearch& search = {});

}  // namespace sluice::twin
