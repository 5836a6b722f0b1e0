// SPDX-License-Identifier: Apache-2.0
// Lists every possible plan of a dense problem that uses the planner's tiles. Each tile and cluster is listed
// without split-K and with 2 to 128 slices, with each way to combine slices. `sluice tune --all` times them,
// to show how far the pick is from the best plan.
#pragma once

#include <vector>

#include <sluice/bench/request.h>

namespace sluice::bench {

/// Returns the candidates of the cost model in their order, then all other possible plans, each once. Errors:
/// those of gemm::candidates.
Result<std::vector<Plan>> every_plan(const Request& request, const DeviceInfo& device);

}  // namespace sluice::bench
