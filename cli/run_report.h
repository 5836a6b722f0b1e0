// SPDX-License-Identifier: Apache-2.0
// Lines that `sluice run` prints for every kind of problem.
#pragma once

#include <string>

#include <sluice/tools.h>

namespace sluice::cli {

void print_row(const char* key, const std::string& value);
void print_verdict(bool right, const std::string& text);
/// Gets the cubin of a unit from the cache, as prepare() does. Prints where it came from and, if it could not
/// be stored on disk, why.
Result<void> compile_and_print(const KernelCache& cache, const std::string& unit);

}  // namespace sluice::cli
