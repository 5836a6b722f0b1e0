// SPDX-License-Identifier: Apache-2.0
// Aligned lines of text that describe a plan or a GPU, and the numbers in them.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace sluice {

/// Formats `value` with a printf format that takes one double and makes at most 63 bytes: "%.2f us".
inline std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// Returns a line: "estimate   12.34 us\n".
inline std::string line(const char* name, const std::string& value) {
  constexpr std::size_t kNameColumns = 11;
  std::string out = name;
  out.resize(kNameColumns, ' ');
  return out + value + "\n";
}

}  // namespace sluice
