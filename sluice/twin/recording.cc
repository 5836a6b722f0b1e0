// SPDX-License-Identifier: Apache-2.0
// See recording.h.
#include <sluice/twin/recording.h>

#include <sluice/twin/record.h>

namespace sluice::twin {

Recording record_gemm(const Scenario& scenario) {
  return record<Machine>(scenario);
}

void finish_recording(Recording& recording) {
  for (ClusterProgram& cluster : recording.clusters) {
    if (recording.failure) return;
    recording.failure = annotate(cluster);
  }
  if (!recording.failure) recording.failure = check_coverage(recording.clusters);
}

}  // namespace sluice::twin
