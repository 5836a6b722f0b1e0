// SPDX-License-Identifier: Apache-2.0
// The ranges of fields that are numbers (the tables are in fields.h).
#pragma once

#include <limits>
#include <string>

namespace sluice {

inline constexpr int kAnyInt = std::numeric_limits<int>::max();

/// The bounds of a number, both inclusive. most = kAnyInt: the upper bound is only the type's.
struct FieldRange {
  int least = 0, most = kAnyInt;
};
/// Returns "must be in 2..16", or "must be at least 1" if there is no upper bound.
std::string rule_of(const FieldRange& range);

}  // namespace sluice
