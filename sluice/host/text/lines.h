// SPDX-License-Identifier: Apache-2.0
// Aligned lines of text that describe a plan or a GPU, and the numbers in them.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr std::size_t kMostColumns = 110;  // upper limit of the length of a printed line

/// `value` by a printf format that takes one double and makes at most 63 bytes: "%.2f us".
inline std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// Returns the pointer as messages show it: "0x7f0012340000".
std::string hex(const void* pointer);

/// Breaks lines at blanks so that each has at most kMostColumns bytes, if its words permit. The first line is
/// assumed to follow `begun` bytes; added lines begin with `indent` blanks.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t begun = 0);

/// "estimate   12.34 us\n"; a long value goes on below its beginning.
std::string line(const char* name, const std::string& value);
/// "gpu        NVIDIA H200, 132 SMs\n": says which GPU a plan is for.
std::string gpu_line(const std::string& name, int sm_count);
/// The line of a plan whose D has no elements.
std::string nothing_line();

}  // namespace sluice
