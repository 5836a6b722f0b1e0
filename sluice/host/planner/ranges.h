// SPDX-License-Identifier: Apache-2.0
// The bounds of every number that overrules a planner: one table for flags, C, Python, C++ and records. The
// planners ask here before they compute anything, so that no size of a config leaves an int. The bounds are
// those of all kernels together; what one kernel allows, its validate() says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sluice/packed.h>
#include <sluice/plan.h>

namespace sluice {

/// What a number may be, both ends included. `name` is the field's in PlanOverrides or packed::Overrides.
struct FieldRange {
  std::string_view name;
  int least, most;
};

/// Nothing if no override has that name.
std::optional<FieldRange> range_of_override(std::string_view name);
std::optional<FieldRange> range_of_packed_override(std::string_view name);

/// "must be in 2..16", or "must be at least 1" where an int is the only other bound.
std::string rule_of(const FieldRange& range);

/// Error invalid_config: a field, its value, its range, and what to give instead.
Result<void> check_ranges(const PlanOverrides& overrides);
Result<void> check_ranges(const packed::Overrides& overrides);

}  // namespace sluice
