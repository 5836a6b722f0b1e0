// SPDX-License-Identifier: Apache-2.0
// Checks the contract of a dependent launch (spec/overlap.h) on each role's list. See local_rules.h. chain.h
// explores overlapping launches.
#include <sluice/twin/local_rules.h>

namespace sluice::twin {
namespace {

/// Returns true for steps that read data which an earlier launch may still write, or write data which it may
/// still read. Steps on barriers and shared memory do neither. Loads of weights count only if weights must
/// wait too.
bool concerns_others(const Step& step, const KernelConfig& c) {
  switch (step.kind) {
    case StepKind::load_a:
    case StepKind::load_b: {
      const bool weights = (step.kind == StepKind::load_a) == is_swapped(c);
      return !weights || c.overlap.wait == Wait::first;
    }
    case StepKind::fetch_scales:
    case StepKind::fetch_strided:
    case StepKind::write_scales:
    case StepKind::stage_vectors:
    case StepKind::read_tensor_scales:
    case StepKind::read_list:
    case StepKind::issue_store:
    case StepKind::copy_chunk:
    case StepKind::store_direct:
    case StepKind::write_partial:
    case StepKind::elect:
    case StepKind::sum_partials: return true;
    default: return false;
  }
}

}  // namespace

std::optional<Failure> check_waits(const ClusterProgram& program) {
  const Scenario& scenario = program.scenario;
  if (scenario.config.overlap.wait == Wait::none) return std::nullopt;
  for (int i = 0; i < scenario.agents(); ++i) {
    bool waited = false;
    for (const Step& step : program.agents[i]) {
      waited = waited || step.kind == StepKind::wait_prerequisites;
      if (!waited && concerns_others(step, scenario.config))
        return Failure{FailureKind::before_the_wait,
                       agent_name(scenario, i) + ": " + to_string(step) +
                           " comes before wait_prerequisites: an earlier launch may not have ended"};
    }
    // The warps of the math groups exit last, so it is enough that these wait.
    if (!waited && agent_at(scenario, i).role == Role::math)
      return Failure{FailureKind::no_wait,
                     agent_name(scenario, i) +
                         " never waits: its CTA, and with it the launch, may end before an "
                         "earlier one has"};
  }
  return std::nullopt;
}

}  // namespace sluice::twin
