// SPDX-License-Identifier: Apache-2.0
// Options and overrides as C gives them.
#pragma once

#include <initializer_list>
#include <limits>

#include <sluice/c_api.h>
#include <sluice/options.h>
#include <sluice/plan.h>

namespace sluice::c_api {

/// The environment's, and over them what is given.
Options options_of(const sluice_options* given);

/// A number of C's choices, dense or packed: -1 leaves it the planner, and nothing else below 0 means
/// anything. `most`: of a switch 1.
struct ChoiceNumber {
  const char* name;
  i64 value;
  i64 most = std::numeric_limits<i64>::max();
};
/// Error invalid_argument.
Result<void> check_choice(const ChoiceNumber& number);

/// Error invalid_argument: a name that is none, a number that means nothing.
Result<PlanOverrides> overrides_of(const sluice_choices* choices);

}  // namespace sluice::c_api
