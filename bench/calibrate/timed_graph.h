// SPDX-License-Identifier: Apache-2.0
// The time of a few launches in a graph: the least of several replays, since a calibration wants what the
// card can do.
#pragma once

#include <functional>

#include <sluice/tools.h>

namespace sluice::bench {

/// Microseconds of one launch of `launches` that `enqueue` makes. Errors: those of enqueue, driver.
Result<double> us_of_launch(const Device& device, int launches,
                            const std::function<Result<void>(int launch, Stream stream)>& enqueue);

}  // namespace sluice::bench
