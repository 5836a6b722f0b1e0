// SPDX-License-Identifier: Apache-2.0
// Every plan worth considering for a problem that problem_checks.h has let through, best estimate first.
// Deterministic: equal estimates keep the order of the registry's space. Called by planner.cc.
#pragma once

#include <optional>
#include <vector>

#include <sluice/plan.h>

namespace sluice {

/// A walk counts cluster tiles in an int and steps past the end once.
inline constexpr i64 kMaxClusterTiles = i64{1} << 30;

/// The order of the walk that moves the fewest bytes, and as many clusters as fit or are needed.
/// Fields that `overrides` sets are taken as they are.
WorkSplit choose_split(const Problem& problem, const KernelConfig& config, const DeviceInfo& device,
                       const PlanOverrides& overrides);

/// `problem` is checked and has its strides filled in.
/// Errors: invalid_config (the overrides leave nothing, with the rule they break), invalid_size.
Result<std::vector<Plan>> rank_candidates(const Problem& problem, const DeviceInfo& device,
                                          const PlanOverrides& overrides);

/// The best walk of one config, which rank_candidates returned for a problem of other sizes. Nothing where
/// that would not return it for this one, but for the width of its tiles: any that the kernel has will do. Of
/// `numbering` that field counts alone. `problem` as above, and not empty.
std::optional<Plan> plan_with(const Problem& problem, const KernelConfig& config, const DeviceInfo& device,
                              const PlanOverrides& numbering);

namespace gemm {

/// The plan of the problem's record, or of one that may stand in for it, through the same checks as a
/// caller's overrides. Nothing if it breaks a rule (it was written by another version or damaged by hand):
/// then the model decides. `checked` as above.
std::optional<Plan> recorded_plan(const Problem& checked, const DeviceInfo& device,
                                  const RecordBook& records);

}  // namespace gemm

}  // namespace sluice
