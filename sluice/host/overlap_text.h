// SPDX-License-Identifier: Apache-2.0
// An Overlap as a field of a configuration's text. Nothing for the default, so that the units of launches
// that overlap nothing stay as they are.
#pragma once

#include <string>

#include <sluice/spec/overlap.h>

namespace sluice {

inline std::string overlap_field(const Overlap& overlap) {
  if (overlap == Overlap{}) return {};
  const auto& [wait, trigger] = overlap;  // a field that is added and not printed does not compile
  return std::string(", .overlap = {.wait = sluice::Wait::") + name_of(wait) +
         ", .trigger = sluice::Trigger::" + name_of(trigger) + "}";
}

}  // namespace sluice
