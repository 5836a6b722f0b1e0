// SPDX-License-Identifier: Apache-2.0
// Converts sluice_options into the library's options.
#pragma once

#include <sluice/c_api.h>
#include <sluice/options.h>
#include <sluice/result.h>

namespace sluice::c_api {

/// Returns the environment's options, overridden by each field that `given` sets. Error: invalid_argument, if
/// `race` is out of range.
Result<Options> options_of(const sluice_options* given);

}  // namespace sluice::c_api
