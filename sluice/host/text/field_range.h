// SPDX-License-Identifier: Apache-2.0
// Ranges of fields that are numbers (fields.h has the tables).
#pragma once

#include <limits>
#include <string>

namespace sluice {

inline constexpr int kAnyInt = std::numeric_limits<int>::max();

/// Bounds of a number, both included. most = kAnyInt: no bound but the type's.
struct FieldRange {
  int least = 0, most = kAnyInt;
};
/// "must be in 2..16", or "must be at least 1" where an int is the only other bound.
std::string rule_of(const FieldRange& range);

}  // namespace sluice
