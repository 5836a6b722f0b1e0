// SPDX-License-Identifier: Apache-2.0
// Conversions between a plan, the choice that a tuning record stores, and the overrides that make the planner
// return that plan again. Overrides do not hold a dense choice's numbering: with_numbering() sets it
// afterwards (numbering.h).
#pragma once

#include <sluice/records.h>

namespace sluice {

TunedChoice choice_of(const Plan& plan, double measured_us = 0);
PlanOverrides overrides_of(const TunedChoice& choice);
/// Returns the chosen fields of a kernel for packed weights; the others have their defaults.
KernelConfig config_of(const TunedChoice& choice);
/// Returns whether the registry, which has no kernels for packed weights, still lists the choice's schedule,
/// height and cluster. Where widths do not follow from the problem, the width must be listed too. CI no
/// longer compiles what was removed, so an old record must not select it.
bool is_listed(const TunedChoice& choice);

}  // namespace sluice
