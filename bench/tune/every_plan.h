// SPDX-License-Identifier: Apache-2.0
// Every plan of a dense problem with the tiles of the planner's space: each tile and cluster, unsplit and
// with 2 to 128 parts, by each way of combining them. `sluice tune --all` times them, to say how far a pick
// is from the best.
#pragma once

#include <vector>

#include "bench/product.h"

namespace sluice::bench {

/// The candidates of the model in their order, then all others; each plan once. Errors: those of
/// gemm::candidates.
Result<std::vector<AnyPlan>> every_plan(const DenseRequest& request, const DeviceInfo& device);

}  // namespace sluice::bench
