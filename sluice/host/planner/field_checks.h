// SPDX-License-Identifier: Apache-2.0
// Checks every field of a problem and of overrides by the tables of text/fields.h, before a planner computes
// anything of them. C++ lets any number through (DType(77), memory that was never written), and a size of it
// would divide by zero or leave an int. The ranges are those of all kernels together; validate() has the
// rules of one kernel.
#pragma once

#include <optional>
#include <string_view>

#include <sluice/host/text/field_range.h>
#include <sluice/packed.h>
#include <sluice/result.h>

namespace sluice {

/// Error invalid_type: an enumeration that has no such enumerator, its number and the names that there are.
Result<void> check_enumerators(const Problem& problem);
Result<void> check_enumerators(const PackedProblem& problem);

/// Error invalid_config: a field, its value, its range or names, and what to give instead.
Result<void> check_overrides(const PlanOverrides& overrides);
Result<void> check_overrides(const packed::Overrides& overrides);

/// Range of the override that has this name; nothing if none has.
std::optional<FieldRange> range_of_override(std::string_view name);
std::optional<FieldRange> range_of_packed_override(std::string_view name);

}  // namespace sluice
