// SPDX-License-Identifier: Apache-2.0
// Plans of packed products. Called by planner.cc and row_plans.cc.
#pragma once

#include <optional>

#include <sluice/records.h>
#include <sluice/spec/packed_config.h>

namespace sluice::packed {

/// Returns the plan of a choice, without a search: that of candidates() with this kernel. Nullopt if the
/// choice breaks a rule, or the planner does not try its config. `checked`: a result of check_packed().
std::optional<Plan> plan_of(const TunedChoice& choice, const Problem& checked, const DeviceInfo& device);

/// Returns the plans that the planner chooses from, best estimate first. `checked`: a result of
/// check_packed(). Error invalid_config: the overrides leave none.
Result<std::vector<Plan>> ranked(const Problem& checked, const DeviceInfo& device,
                                 const PlanOverrides& overrides);
/// Returns ranked(), and kernels that use half of an SM. By themselves those are not faster, but chains want
/// them.
Result<std::vector<Plan>> candidates(const Problem& checked, const DeviceInfo& device,
                                     const PlanOverrides& overrides);

/// wanted: plans that the planner prefers. possible: plans it takes only if there are no preferred ones.
enum class Taste { wanted, possible };

/// Returns the plan of a config that was made for a problem of other sizes. Nullopt if the config breaks a
/// rule for this problem, or `taste` is wanted and the planner does not prefer it. `checked` is not empty.
std::optional<Plan> plan_with(const Problem& checked, const KernelConfig& config, const DeviceInfo& device,
                              Taste taste);

}  // namespace sluice::packed
