// SPDX-License-Identifier: Apache-2.0
// Rules for every message of the library, for any input. It is not empty, is one line of limited length, and
// is valid UTF-8 without control characters.
#pragma once

#include <stdio.h>

#include <string>

#include <sluice/text.h>

namespace sluice::test {

inline bool is_fit_to_print(const std::string& message) {
  const bool fit = !message.empty() && message.size() <= kMostMessage && printable(message) == message &&
                   message.find_first_of("\n\t") == std::string::npos;
  if (!fit) fprintf(stderr, "no fit message: %s\n", printable(message).c_str());
  return fit;
}

}  // namespace sluice::test
