// SPDX-License-Identifier: Apache-2.0
// The choice of a plan, which a tuning record stores. gemm::plan_of() makes it a plan again (candidates.h).
#pragma once

#include <sluice/records.h>

namespace sluice {

TunedChoice choice_of(const Plan& plan, double measured_us = 0);
/// Returns the chosen fields of a kernel for packed weights; the others have their defaults.
KernelConfig config_of(const TunedChoice& choice);
/// Returns whether the registry, which has no kernels for packed weights, still lists the choice's schedule,
/// height and cluster. Where widths do not follow from the problem, the width must be listed too. CI no
/// longer compiles what was removed, so an old record must not select it.
bool is_listed(const TunedChoice& choice);

}  // namespace sluice
