// SPDX-License-Identifier: Apache-2.0
// Explores how the peers of a shared tile combine, across clusters: one of them is the last, and it must see
// the sums of all. Simulator has one cluster and lets every election end either way. Here all peers run, with
// only their steps between writing sums and adding them up.
//   const auto all = explore_combine(record_gemm(scenario), {.launches = 2});
#pragma once

#include <sluice/twin/explore.h>

namespace sluice::twin {

struct CombineSearch {
  i64 max_states = 3'000'000;  // for each set of groups that share anything
  i64 schedules = 0;           // random schedules in place of all, for each set
  u64 seed = 1;
  int launches = 2;  // consecutive launches on one set of counters
};

Exploration explore_combine(const Recording& recording, const CombineSearch& search = {});

}  // namespace sluice::twin
