// SPDX-License-Identifier: Apache-2.0
// Decides which plans number their clusters by GPC (spec/work_split.h), and their raster. Overrides have no
// numbering: the model or a tuned choice decides, and ranges of rows use launch order.
#pragma once

#include <sluice/plan.h>

namespace sluice {

/// Returns the split of `plan`, which has its estimate. Clusters are numbered by GPC if the model expects a
/// gain. Then the raster that suits it is set too, unless the overrides set one.
WorkSplit numbered(const Plan& plan, const PlanOverrides& overrides);

/// Returns the split of `plan` with clusters numbered by GPC, in the raster that suits it.
WorkSplit numbered_by_gpc(const Plan& plan);

/// Returns the rule that the split's numbering breaks; empty: none.
std::string numbering_problem(const WorkSplit& split);

}  // namespace sluice
