// SPDX-License-Identifier: Apache-2.0
// The kernel that stands in a chain's gaps while the chain is tuned or guarded. The tuner cannot launch what
// the caller launches there, and a record should not depend on it.
#pragma once

#include <span>
#include <vector>

#include <sluice/chain.h>

namespace sluice::tuning {

/// Returns the steps with a launch in each gap that takes stand_in_us on every SM, keeps the gap's promises
/// and moves no data. Errors: toolchain, driver.
Result<std::vector<ChainStep>> with_stand_ins(const Device& device, std::span<const ChainStep> steps);

}  // namespace sluice::tuning
