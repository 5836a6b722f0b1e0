// SPDX-License-Identifier: Apache-2.0
// An Overlap as a field of a configuration's text. The default gives no text, so that units without overlap
// are the same as before the field existed.
#pragma once

#include <string>

#include <sluice/plan/text/field_text.h>

namespace sluice {

inline std::string overlap_field(const Overlap& overlap) {
  return overlap == Overlap{} ? std::string() : ", .overlap = " + text_of(overlap);
}

/// Returns the overlap's part of a configuration's short name.
inline std::string overlap_words(const Overlap& overlap) {
  std::string words;
  if (overlap.wait != Wait::none) words += std::string(" wait:") + name_of(overlap.wait);
  if (overlap.trigger != Trigger::never) words += std::string(" trigger:") + name_of(overlap.trigger);
  if (overlap.spacing != Spacing::memory) words += std::string(" spacing:") + name_of(overlap.spacing);
  return words;
}

}  // namespace sluice
