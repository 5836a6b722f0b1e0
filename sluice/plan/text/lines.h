// SPDX-License-Identifier: Apache-2.0
// Aligned lines of text that describe a plan or a GPU, and the numbers in them.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include <sluice/spec/problem.h>
#include <sluice/text.h>

namespace sluice {

/// `value` by a printf format that takes one double and makes at most 63 bytes: "%.2f us".
inline std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// Returns the pointer as messages show it: "0x7f0012340000".
std::string hex(const void* pointer);

/// "estimate   12.34 us\n"; a long value goes on below its beginning.
std::string line(const char* name, const std::string& value);
/// Returns a problem's m, n, k and its batch or groups: "m 4 n 64 k 128 batch 2".
std::string size_text(const Problem& problem);
/// The line of a plan whose D has no elements.
std::string nothing_line();

}  // namespace sluice
