// SPDX-License-Identifier: Apache-2.0
// The model of a packed product between its neighbours in a chain. The launch behind it begins when all of
// its CTAs have begun, so a short last wave holds it up. An SM takes in 42 KB/us of packed weights, so one
// with more CTAs than others holds everybody up. Fitted to the tuner's trials on
// layers that have no records (docs/findings/untuned-chains.md). Dense products load faster, and the same sum
// did not carry over to them. Used by steps/products.cc. Pure.
#pragma once

#include <sluice/packed.h>

namespace sluice {

/// Returns how evenly `ctas` fill `at_once` SMs with up to `room` CTAs each, wave after wave: 1 is even.
double grid_fill(double ctas, double room, double at_once);

/// Returns microseconds, to compare plans of one problem.
double us_between_neighbours(const packed::Plan& plan, const DeviceInfo& device);

}  // namespace sluice
