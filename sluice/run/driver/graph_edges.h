// SPDX-License-Identifier: Apache-2.0
// Reads captured graphs: the nodes in an order of execution, and which edges are programmatic. A programmatic
// edge lets the second kernel begin before the first has ended. A memset or event between two launches
// silently turns it into an ordinary edge, so chains and tests read graphs.
#pragma once

#include <cstddef>
#include <vector>

#include <sluice/run/driver/api.h>

namespace sluice {

struct GraphEdges {
  int nodes = 0;
  int edges = 0;
  int programmatic = 0;  // edges that allow the overlap
};
/// Error driver.
Result<GraphEdges> count_edges(const DriverApi& api, CUgraph graph);

struct GraphNode {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUfunction function = nullptr;  // a kernel's; null if the driver does not tell
  /// The node in front in this order is its only dependency, and the edge between them is programmatic.
  bool programmatic = false;
};
/// Returns the nodes in an order in which they may run: that of the capture where a graph is one row. Error
/// driver.
Result<std::vector<GraphNode>> nodes_in_order(const DriverApi& api, CUgraph graph);

/// Returns what a node is, for messages: "a kernel", "a memset".
const char* name_of(CUgraphNodeType type);

}  // namespace sluice
