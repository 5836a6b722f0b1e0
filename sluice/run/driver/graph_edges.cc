// SPDX-License-Identifier: Apache-2.0
// Every query also asks for edge data, because otherwise a query fails on a graph that has a programmatic
// edge.
#include <sluice/run/driver/graph_edges.h>

#include <algorithm>
#include <vector>

#include <sluice/run/driver/error.h>

namespace sluice {

Result<GraphEdges> count_edges(const DriverApi& api, CUgraph graph) {
  std::size_t nodes = 0;
  if (const CUresult code = api.cuGraphGetNodes(graph, nullptr, &nodes); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuGraphGetNodes");
  // Starts with room for one more edge than a row of nodes has, and doubles it while all of it is used.
  for (std::size_t room = nodes + 1;; room *= 2) {
    std::vector<CUgraphNode> from(room), to(room);
    std::vector<CUgraphEdgeData> data(room);
    std::size_t edges = room;
    const CUresult code = api.cuGraphGetEdges(graph, from.data(), to.data(), data.data(), &edges);
    if (code != CUDA_SUCCESS) return driver_error(api, code, "cuGraphGetEdges");
    if (edges >= room) continue;
    const auto end = data.begin() + static_cast<std::ptrdiff_t>(edges);
    const auto programmatic = std::count_if(data.begin(), end, [](const CUgraphEdgeData& edge) {
      return edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    });
    return GraphEdges{static_cast<int>(nodes), static_cast<int>(edges), static_cast<int>(programmatic)};
  }
}

}  // namespace sluice
