// SPDX-License-Identifier: Apache-2.0
// Compiles units into the cache folder, without a device. Used by compile.cc and by the C interface.
#pragma once

#include <string>
#include <vector>

#include <sluice/compile.h>

namespace sluice {

/// Errors: invalid_argument (the cache is read-only), io.
Result<Compiled> compile_units(const std::vector<std::string>& units, const Options& options);

}  // namespace sluice
