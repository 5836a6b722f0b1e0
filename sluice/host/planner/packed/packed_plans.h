// SPDX-License-Identifier: Apache-2.0
// Makes plans of packed products from one record, or from one config. Called by row_plans.cc.
#pragma once

#include <optional>

#include <sluice/packed.h>

namespace sluice::packed {

/// Returns the plan of the problem's tuning record. Nullopt if there is none or the planner would not
/// consider its config: it breaks a rule, another version wrote it, or somebody edited it. Then the model
/// decides. `checked`: a result of check_problem().
std::optional<Plan> recorded_plan(const PackedProblem& checked, const DeviceInfo& device,
                                  const RecordBook& records);

/// wanted: plans that the planner prefers. possible: plans it takes only if there are no preferred ones.
enum class Taste { wanted, possible };

/// Returns the plan of a config that was made for a problem of other sizes. Nullopt if the config breaks a
/// rule for this problem, or `taste` is wanted and the planner does not prefer it. `checked` is not empty.
std::optional<Plan> plan_with(const PackedProblem& checked, const PackedConfig& config,
                              const DeviceInfo& device, Taste taste);

}  // namespace sluice::packed
