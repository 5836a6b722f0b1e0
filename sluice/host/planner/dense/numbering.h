// SPDX-License-Identifier: Apache-2.0
// Which plans number their clusters by GPC (spec/work_split.h), and how those walk.
#pragma once

#include <sluice/plan.h>

namespace sluice {

/// The split of a plan that has its estimate. It is numbered by GPC if that is asked for, or if nobody asked
/// and it pays. Then it has the order of tiles that goes with it, unless another is asked for.
WorkSplit numbered(const Plan& plan, const PlanOverrides& overrides);

/// Nothing wrong: "".
std::string numbering_problem(const WorkSplit& split);

}  // namespace sluice
