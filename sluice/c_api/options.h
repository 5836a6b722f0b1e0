// SPDX-License-Identifier: Apache-2.0
// Options as C gives them.
#pragma once

#include <sluice/c_api.h>
#include <sluice/options.h>

namespace sluice::c_api {

/// The environment's, and over them what is given.
Options options_of(const sluice_options* given);

}  // namespace sluice::c_api
