// SPDX-License-Identifier: Apache-2.0
// Plans of packed products. Called by planner.cc and row_plans.cc.
#pragma once

#include <optional>

#include <sluice/records.h>
#include <sluice/spec/packed_config.h>

namespace sluice::packed {

/// Returns the plan of the problem's tuning record. Nullopt if there is none or the planner would not
/// consider its config: it breaks a rule, another version wrote it, or somebody edited it. Then the model
/// decides. `checked`: a result of check_packed().
std::optional<Plan> recorded_plan(const Problem& checked, const DeviceInfo& device,
                                  const RecordBook& records);

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
