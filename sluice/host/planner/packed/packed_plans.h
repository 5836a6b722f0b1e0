// SPDX-License-Identifier: Apache-2.0
// Plans of packed products that the planner makes of one record, or of one config. Called by row_plans.cc.
#pragma once

#include <optional>

#include <sluice/packed.h>

namespace sluice::packed {

/// The plan of the problem's record. Nothing if the planner would not consider its config: it breaks a rule,
/// or is of another version or damaged by hand. Then the model decides. `checked`: check_problem's.
std::optional<Plan> recorded_plan(const PackedProblem& checked, const DeviceInfo& device,
                                  const RecordBook& records);

/// wanted: what the planner would choose from. possible: what it takes where it wants none.
enum class Taste { wanted, possible };

/// The plan of a config that was made for a problem of other sizes. Nothing where it breaks a rule, or is not
/// to the `taste`. `checked` as above, and not empty.
std::optional<Plan> plan_with(const PackedProblem& checked, const PackedConfig& config,
                              const DeviceInfo& device, Taste taste);

}  // namespace sluice::packed
