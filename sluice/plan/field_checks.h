// SPDX-License-Identifier: Apache-2.0
// Checks every field of a problem and of overrides against the tables of text/fields.h, before a planner uses
// it. In C++ a field may hold any number (DType(77), uninitialised memory), which could make the planner
// divide by zero or overflow an int. The ranges are the widest over all kernels; validate() has the rules of
// one.
#pragma once

#include <optional>
#include <string_view>

#include <sluice/choices.h>
#include <sluice/plan.h>
#include <sluice/result.h>

namespace sluice {

/// Error invalid_type: an enumeration has an unknown value. The message gives its number and the valid names.
Result<void> check_enumerators(const Problem& problem);

/// Error invalid_config: an override is out of range. The message gives the field, its value, its range or
/// names, and what to do instead.
Result<void> check_overrides(const PlanOverrides& overrides);

}  // namespace sluice
