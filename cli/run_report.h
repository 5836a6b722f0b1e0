// SPDX-License-Identifier: Apache-2.0
// Lines that `sluice run` prints for every kind of problem.
#pragma once

#include <string>

#include <sluice/compile.h>

namespace sluice::cli {

void print_row(const char* key, const std::string& value);
void print_verdict(bool right, const std::string& text);
/// Finds or compiles a unit, as prepare() does. Prints where it came from and, if it could not be stored on
/// disk, why.
Result<void> build_and_print(const std::string& unit, const Options& options);
Result<void> build_and_print(const std::string& unit, const Device& device);

}  // namespace sluice::cli
