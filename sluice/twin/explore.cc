// SPDX-License-Identifier: Apache-2.0
// Explores one cluster after the other. See explore.h.
#include <sluice/twin/explore.h>

#include <sluice/twin/search.h>
#include <sluice/twin/simulator.h>

namespace sluice::twin {

Exploration explore_all(const Recording& recording, const SearchLimits& limits) {
  Exploration result;
  result.failure = recording.failure;
  for (const ClusterProgram& cluster : recording.clusters) {
    if (result.failure) break;
    search_all(Simulator(cluster), limits, result);
  }
  return result;
}

Exploration explore_random(const Recording& recording, const RandomSearch& search) {
  Exploration result;
  result.complete = false;
  result.failure = recording.failure;
  for (const ClusterProgram& cluster : recording.clusters) {
    const Simulator simulator(cluster);
    StateSet seen;
    for (i64 i = 0; i < search.schedules && !result.failure; ++i)
      result.failure = run_schedule(simulator, search.seed + static_cast<u64>(i),
                                    search.count_states ? &seen : nullptr, result);
    result.states += seen.size();
  }
  return result;
}

}  // namespace sluice::twin
