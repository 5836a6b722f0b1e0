// SPDX-License-Identifier: Apache-2.0
// Makes the library's options from C's.
#pragma once

#include <sluice/c_api.h>
#include <sluice/options.h>
#include <sluice/result.h>

namespace sluice::c_api {

/// Returns the environment's options, replaced by each field that is given. Error invalid_argument: `race` is
/// out of range.
Result<Options> options_of(const sluice_options* given);

}  // namespace sluice::c_api
