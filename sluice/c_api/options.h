// SPDX-License-Identifier: Apache-2.0
// Makes the library's options from C's.
#pragma once

#include <sluice/c_api.h>
#include <sluice/options.h>

namespace sluice::c_api {

/// Returns the environment's options, replaced by each field that is given.
Options options_of(const sluice_options* given);

}  // namespace sluice::c_api
