// SPDX-License-Identifier: Apache-2.0
// Plans of the plain schedules (kernels/plain.cuh): for few rows of A, beside those that candidates.cc makes.
#pragma once

#include <optional>
#include <vector>

#include <sluice/host/planner/costs.h>
#include <sluice/plan.h>

namespace sluice {

/// Few enough rows that one tile of plain_wgmma holds them all (plain's: up to 64).
inline constexpr i64 kMaxPlainRows = 128;

/// nullptr, or why the overrides and the problem leave none, in words.
const char* why_not_plain(const Problem& problem, const PlanOverrides& overrides);

/// Not ranked; none where why_not_plain() says so, or where the problem has more rows and nobody asked for
/// them. `problem` is checked and has its strides filled in.
std::vector<Plan> plain_plans(const Problem& problem, const DeviceInfo& device,
                              const PlanOverrides& overrides);

/// The plan of `config`: as many clusters as there are tiles.
Plan plain_plan(const Problem& problem, const DeviceInfo& device, const KernelConfig& config);

/// The plan of a config that was made for a problem of other sizes; nothing where plain_plans() would not
/// have it.
std::optional<Plan> plain_plan_with(const Problem& problem, const DeviceInfo& device,
                                    const KernelConfig& config);

/// Where the model thinks the time goes.
Estimate plain_estimate(const Problem& problem, const DeviceInfo& device, const KernelConfig& config,
                        const Costs& costs = kCosts);

}  // namespace sluice
