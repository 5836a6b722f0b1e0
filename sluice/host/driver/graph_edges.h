// SPDX-License-Identifier: Apache-2.0
// What a captured graph looks like, as the driver tells it: how many nodes, and how many edges let the second
// kernel begin before the first has ended. A memset or an event between two launches makes such an edge an
// ordinary one without a word, which is why somebody counts.
#pragma once

#include <cstddef>

#include <sluice/host/driver/api.h>

namespace sluice {

struct GraphEdges {
  int nodes = 0;
  int edges = 0;
  int programmatic = 0;  // of them
};

/// Error driver.
Result<GraphEdges> count_edges(const DriverApi& api, CUgraph graph);

}  // namespace sluice
