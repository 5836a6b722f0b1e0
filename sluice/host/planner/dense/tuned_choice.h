// SPDX-License-Identifier: Apache-2.0
// Between a plan, what a record keeps of it, and what makes the planner plan it again.
#pragma once

#include <sluice/packed.h>
#include <sluice/records.h>

namespace sluice {

TunedChoice choice_of(const Plan& plan, double measured_us = 0);
PlanOverrides overrides_of(const TunedChoice& choice);
/// Does the registry still list its schedule, height and cluster, and all of it where widths do not follow
/// from the problem? What was taken out is no longer compiled by CI, so an old record shall not bring it
/// back.
bool is_listed(const TunedChoice& choice);

namespace packed {
TunedChoice choice_of(const Plan& plan, double measured_us = 0);
Overrides overrides_of(const TunedChoice& choice);
}  // namespace packed

}  // namespace sluice
