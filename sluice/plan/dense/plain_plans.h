// SPDX-License-Identifier: Apache-2.0
// Plans of the plain schedules (kernels/plain.cuh), for few rows of A. candidates.cc makes all other plans.
#pragma once

#include <optional>
#include <vector>

#include <sluice/plan/costs.h>
#include <sluice/records.h>

namespace sluice {

/// Most rows of A: one tile of plain_wgmma holds them all (plain: up to 64).
inline constexpr i64 kMaxPlainRows = 128;

/// Returns nullptr, or the reason as text why the problem and the overrides allow no plain plan.
const char* why_not_plain(const Problem& problem, const PlanOverrides& overrides);

/// Returns the plans, unsorted. Empty if why_not_plain() gives a reason, or if A has more rows than a tile
/// and the overrides do not ask for that. `problem` is checked and has its strides filled in.
std::vector<Plan> plain_plans(const Problem& problem, const DeviceInfo& device,
                              const PlanOverrides& overrides);

/// Returns the plan with this config: one cluster per tile.
Plan plain_plan(const Problem& problem, const DeviceInfo& device, const KernelConfig& config);

/// Returns the plan of a choice that the registry lists (is_listed() in tuned_choice.h). Nullopt if it breaks
/// a rule.
std::optional<Plan> plain_plan_of(const TunedChoice& choice, const Problem& problem,
                                  const DeviceInfo& device);

/// Returns the plan of a config that was made for a problem of other sizes; nullopt if plain_plans() would
/// not return it for this problem.
std::optional<Plan> plain_plan_with(const Problem& problem, const DeviceInfo& device,
                                    const KernelConfig& config);

/// Returns the model's estimate, with the time of its parts.
Estimate plain_estimate(const Problem& problem, const DeviceInfo& device, const KernelConfig& config,
                        const Costs& costs = kCosts);

}  // namespace sluice
