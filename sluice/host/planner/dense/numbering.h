// SPDX-License-Identifier: Apache-2.0
// Decides which plans number their clusters by GPC (spec/work_split.h), and their raster.
#pragma once

#include <sluice/plan.h>

namespace sluice {

/// Returns the split of `plan`, which has its estimate. Clusters are numbered by GPC if the overrides ask for
/// it, or if they leave it open and the model expects a gain. Then the raster that suits it is set too,
/// unless the overrides set one.
WorkSplit numbered(const Plan& plan, const PlanOverrides& overrides);

/// Returns the rule that the split's numbering breaks; empty: none.
std::string numbering_problem(const WorkSplit& split);

}  // namespace sluice
