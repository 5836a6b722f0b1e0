// SPDX-License-Identifier: Apache-2.0
// Explores one cluster after the other. See explore.h.
#include <sluice/twin/explore.h>

#include <sluice/twin/search.h>
#include <sluice/twin/simulator.h>

namespace sluice::twin {

Exploration explore_all(const Recording& recording, const SearchLimits& limits) {
  Exploration result{.failure = recording.failure};
  for (auto cluster = recording.clusters.begin(); cluster != recording.clusters.end() && !result.failure;
       ++cluster)
    search_all(Simulator(*cluster), limits, result);
  return result;
}

Exploration explore_random(const Recording& recording, const RandomSearch& search) {
  Exploration result{.complete = false, .failure = recording.failure};
  for (const ClusterProgram& cluster : recording.clusters) search_random(Simulator(cluster), search, result);
  return result;
}

}  // namespace sluice::twin
