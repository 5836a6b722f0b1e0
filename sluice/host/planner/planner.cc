// SPDX-License-Identifier: Apache-2.0
// From a problem to a plan: checks, then candidates, then the best of them. Pure: the same arguments give
// the same plan everywhere. tests/plans holds its choices as text.
#include <sluice/host/planner/candidates.h>
#include <sluice/host/planner/problem_checks.h>

namespace sluice::gemm {

Result<std::vector<Plan>> candidates(const Problem& problem, const DeviceInfo& device,
                                     const PlanOverrides& overrides) {
  if (Result<void> usable = check_device(device); !usable) return usable.error();
  Result<Problem> checked = check_problem(problem);
  if (!checked) return checked.error();
  return rank_candidates(*checked, device, overrides);
}

Result<Plan> plan(const Problem& problem, const DeviceInfo& device, const PlanOverrides& overrides) {
  Result<std::vector<Plan>> ranked = candidates(problem, device, overrides);
  if (!ranked) return ranked.error();
  return ranked->front();  // rank_candidates returns at least one
}

}  // namespace sluice::gemm
