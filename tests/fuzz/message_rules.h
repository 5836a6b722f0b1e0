// SPDX-License-Identifier: Apache-2.0
// What every message of the library must be, whatever the caller gave: not empty, one line of bounded length,
// valid UTF-8 without control characters.
#pragma once

#include <string>

#include <sluice/host/quoted.h>

namespace sluice::test {

inline bool is_fit_to_print(const std::string& message) {
  return !message.empty() && message.size() <= kMostMessage && one_line(message) == message;
}

}  // namespace sluice::test
