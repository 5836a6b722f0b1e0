// SPDX-License-Identifier: Apache-2.0
// Adds an option whose value is a number within bounds; --help shows the default and the bounds.
#pragma once

#include <CLI/CLI.hpp>

namespace sluice::cli {

template <class T>
CLI::Option* bounded(CLI::Option* option, T least, T most) {
  return option->capture_default_str()->check(CLI::Range(least, most));
}

}  // namespace sluice::cli
