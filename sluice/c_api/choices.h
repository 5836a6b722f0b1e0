// SPDX-License-Identifier: Apache-2.0
// Options and overrides as C gives them.
#pragma once

#include <sluice/c_api.h>
#include <sluice/options.h>
#include <sluice/packed.h>

namespace sluice::c_api {

/// The environment's, and over them what is given.
Options options_of(const sluice_options* given);

/// Overrides of "tile_m=128, splits=4"; of null none. Error invalid_argument: a name or a value that is none.
template <class Overrides>
Result<Overrides> overrides_of(const char* choices);

}  // namespace sluice::c_api
