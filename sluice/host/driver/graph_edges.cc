// SPDX-License-Identifier: Apache-2.0
// Edge data are asked for every time: without them the query fails where an edge is not an ordinary one.
#include <sluice/host/driver/graph_edges.h>

#include <algorithm>
#include <vector>

#include <sluice/host/driver/error.h>

namespace sluice {

Result<GraphEdges> count_edges(const DriverApi& api, CUgraph graph) {
  std::size_t nodes = 0, edges = 0;
  CUresult code = api.cuGraphGetNodes(graph, nullptr, &nodes);
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuGraphGetNodes");
  code = api.cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges);
  if (code != CUDA_SUCCESS) return driver_error(api, code, "cuGraphGetEdges", "their number");
  std::vector<CUgraphNode> from(edges), to(edges);
  std::vector<CUgraphEdgeData> data(edges);
  if (edges > 0) {
    code = api.cuGraphGetEdges(graph, from.data(), to.data(), data.data(), &edges);
    if (code != CUDA_SUCCESS) return driver_error(api, code, "cuGraphGetEdges");
  }
  const auto programmatic = std::count_if(data.begin(), data.end(), [](const CUgraphEdgeData& edge) {
    return edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  });
  return GraphEdges{static_cast<int>(nodes), static_cast<int>(edges), static_cast<int>(programmatic)};
}

}  // namespace sluice
