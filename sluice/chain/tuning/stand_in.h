// SPDX-License-Identifier: Apache-2.0
// The idle kernel that stands in a chain's gaps while the chain is tuned or guarded. The tuner cannot launch
// what the caller launches there, and a record should not depend on it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <sluice/chain.h>

namespace sluice::tuning {

struct IdleLaunch {
  double us = 0;
  u32 ctas = 1;
  bool triggers = false;   // at its start
  bool waits = false;      // then
  bool dependent = false;  // launched so that it may begin early
};
/// Returns a function that enqueues one launch, which idles and moves no data. Errors: toolchain, driver.
Result<std::function<Result<void>(Stream)>> idle_launch(const Device& device, const IdleLaunch& idle);

/// Returns the steps with a launch in each gap that takes stand_in_us on every SM and keeps the gap's
/// promises. Errors: toolchain, driver.
Result<std::vector<ChainStep>> with_stand_ins(const Device& device, std::span<const ChainStep> steps);

}  // namespace sluice::tuning
