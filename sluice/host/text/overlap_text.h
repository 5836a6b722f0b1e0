// SPDX-License-Identifier: Apache-2.0
// An Overlap as a field of a configuration's text. The default gives no text, so units without overlap are
// unchanged.
#pragma once

#include <string>

#include <sluice/host/text/field_text.h>

namespace sluice {

inline std::string overlap_field(const Overlap& overlap) {
  return overlap == Overlap{} ? std::string() : ", .overlap = " + text_of(overlap);
}

/// Describes an overlap in short names of configurations.
inline std::string overlap_words(const Overlap& overlap) {
  std::string words;
  if (overlap.wait != Wait::none) words += std::string(" wait:") + name_of(overlap.wait);
  if (overlap.trigger != Trigger::never) words += std::string(" trigger:") + name_of(overlap.trigger);
  if (overlap.spacing != Spacing::memory) words += std::string(" spacing:") + name_of(overlap.spacing);
  return words;
}

}  // namespace sluice
