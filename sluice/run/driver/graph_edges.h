// SPDX-License-Identifier: Apache-2.0
// Counts nodes and programmatic edges of a captured graph. A programmatic edge lets the second kernel begin
// before the first has ended. A memset or event between two launches silently turns it into an ordinary edge,
// so chains and tests count them.
#pragma once

#include <cstddef>

#include <sluice/run/driver/api.h>

namespace sluice {

struct GraphEdges {
  int nodes = 0;
  int edges = 0;
  int programmatic = 0;  // edges that allow the overlap
};

/// Error driver.
Result<GraphEdges> count_edges(const DriverApi& api, CUgraph graph);

}  // namespace sluice
