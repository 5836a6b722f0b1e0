// SPDX-License-Identifier: Apache-2.0
// Options and overrides as C gives them.
#pragma once

#include <sluice/c_api.h>
#include <sluice/options.h>
#include <sluice/plan.h>

namespace sluice::c_api {

/// The environment's, and over them what is given.
Options options_of(const sluice_options* given);

/// Error invalid_argument: a name that is none.
Result<PlanOverrides> overrides_of(const sluice_choices* choices);

}  // namespace sluice::c_api
