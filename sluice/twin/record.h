// SPDX-License-Identifier: Apache-2.0
// Runs the kernel's source once per role of each cluster, on Machine or on a mutant (a planted bug) of it.
// Called by recording.cc and tests/protocol.
#pragma once

#include <sluice/twin/local_rules.h>
#include <sluice/twin/machine.h>
#include <sluice/twin/recording.h>

namespace sluice::twin {

/// Records the steps, without checking any rule.
template <class AnyMachine>
Recording record_unchecked(const Scenario& scenario) {
  Recording recording;
  for (int cluster = 0; cluster < scenario.split.clusters; ++cluster) {
    ClusterProgram program{scenario, cluster, std::vector<StepList>(scenario.agents())};
    for (int i = 0; i < scenario.agents(); ++i)
      if (!record_agent<AnyMachine>(scenario, cluster, agent_at(scenario, i), program.agents[i])) {
        recording.failure = Failure{FailureKind::endless_role, agent_name(scenario, i) + " does not end"};
        return recording;
      }
    recording.clusters.push_back(std::move(program));
  }
  return recording;
}

template <class AnyMachine>
Recording record(const Scenario& scenario) {
  Recording recording = record_unchecked<AnyMachine>(scenario);
  finish_recording(recording);
  return recording;
}

}  // namespace sluice::twin
