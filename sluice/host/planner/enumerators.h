// SPDX-License-Identifier: Apache-2.0
// Is every enumeration of a problem, and of what overrules its plan, one of its enumerators? C++ lets any
// number through (DType(77), memory that was never written), and what is computed of one divides by zero.
// Called first by the checks of problems and by the planner, so that all behind them may rely on it.
#pragma once

#include <sluice/packed.h>
#include <sluice/plan.h>

namespace sluice {

/// Error invalid_type: the field, its number and the names that there are.
Result<void> check_enumerators(const Problem& problem);
Result<void> check_enumerators(const PackedProblem& problem);
/// The same as error invalid_config; and that workspace_limit is not negative.
Result<void> check_overrides(const PlanOverrides& overrides);

}  // namespace sluice
