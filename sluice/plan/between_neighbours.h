// SPDX-License-Identifier: Apache-2.0
// A model of a packed product's time between its neighbours in a chain. The next launch starts when all CTAs
// of this one have started, so a short last wave delays it. An SM loads 42 KB/us of packed weights, so an SM
// with more CTAs than others delays the whole launch. Fitted to the tuner's trials on layers without records
// (docs/findings/untuned-chains.md). Dense products load faster, and the same formula did not fit them. Used
// by steps/products.cc. Pure.
#pragma once

#include <sluice/plan.h>

namespace sluice {

/// Returns how evenly `ctas` fill `at_once` SMs with up to `room` CTAs each, wave after wave: 1 is even.
double grid_fill(double ctas, double room, double at_once);

/// Returns a time in microseconds, only for comparing plans of one problem with packed weights.
double us_between_neighbours(const Plan& plan, const DeviceInfo& device);

}  // namespace sluice
