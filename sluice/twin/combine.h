// SPDX-License-Identifier: Apache-2.0
// How the peers of a shared tile come together, across clusters: who is the last one, and whether it sees the
// sums of all. Simulator, which has one cluster, lets every election end either way; here all peers run, and
// only what they do between writing their sums and adding them up.
//   const auto all = explore_combine(record_gemm(scenario), {.launches = 2});
#pragma once

#include <sluice/twin/explore.h>

namespace sluice::twin {

struct CombineSearch {
  i64 max_states = 3'000'000;  // of each set of groups that share anything
  i64 schedules = 0;           // random ones in place of all, of each set
  u64 seed = 1;
  int launches = 2;  // one after the other on the same counters
};

Exploration explore_combine(const Recording& recording, const CombineSearch& search = {});

}  // namespace sluice::twin
