// SPDX-License-Identifier: Apache-2.0
// Every query also asks for edge data, because otherwise a query fails on a graph that has a programmatic
// edge.
#include <sluice/run/driver/graph_edges.h>

#include <algorithm>
#include <map>
#include <set>

#include <sluice/run/driver/error.h>
#include <sluice/try.h>

namespace sluice {
namespace {

struct Edge {
  CUgraphNode from, to;
  bool programmatic;
};

Result<std::size_t> node_count(const DriverApi& api, CUgraph graph) {
  std::size_t nodes = 0;
  if (const CUresult code = api.cuGraphGetNodes(graph, nullptr, &nodes); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuGraphGetNodes");
  return nodes;
}

Result<std::vector<Edge>> edges_of(const DriverApi& api, CUgraph graph, std::size_t nodes) {
  // Starts with room for one more edge than a row of nodes has, and doubles it while all of it is used.
  for (std::size_t room = nodes + 1;; room *= 2) {
    std::vector<CUgraphNode> from(room), to(room);
    std::vector<CUgraphEdgeData> data(room);
    std::size_t count = room;
    const CUresult code = api.cuGraphGetEdges(graph, from.data(), to.data(), data.data(), &count);
    if (code != CUDA_SUCCESS) return driver_error(api, code, "cuGraphGetEdges");
    if (count >= room) continue;
    std::vector<Edge> edges;
    for (std::size_t i = 0; i < count; ++i)
      edges.push_back({from[i], to[i], data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC});
    return edges;
  }
}

}  // namespace

Result<GraphEdges> count_edges(const DriverApi& api, CUgraph graph) {
  SLUICE_TAKE(const std::size_t nodes, node_count(api, graph));
  SLUICE_TAKE(const std::vector<Edge> edges, edges_of(api, graph, nodes));
  const auto programmatic =
      std::count_if(edges.begin(), edges.end(), [](const Edge& edge) { return edge.programmatic; });
  return GraphEdges{static_cast<int>(nodes), static_cast<int>(edges.size()), static_cast<int>(programmatic)};
}

Result<std::vector<GraphNode>> nodes_in_order(const DriverApi& api, CUgraph graph) {
  SLUICE_TAKE(std::size_t count, node_count(api, graph));
  std::vector<CUgraphNode> nodes(count);
  if (const CUresult code = api.cuGraphGetNodes(graph, nodes.data(), &count); code != CUDA_SUCCESS)
    return driver_error(api, code, "cuGraphGetNodes");
  SLUICE_TAKE(const std::vector<Edge> edges, edges_of(api, graph, count));
  std::map<CUgraphNode, std::vector<const Edge*>> into, out_of;
  std::map<CUgraphNode, std::size_t> missing;
  for (const Edge& edge : edges) {
    into[edge.to].push_back(&edge);
    out_of[edge.from].push_back(&edge);
    ++missing[edge.to];
  }
  // A successor of the last node comes before others, so that a row of nodes stays one.
  std::vector<CUgraphNode> ready, order;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
    if (missing[*node] == 0) ready.push_back(*node);
  std::vector<GraphNode> found;
  while (!ready.empty()) {
    const CUgraphNode node = ready.back();
    ready.pop_back();
    GraphNode made;
    if (const CUresult code = api.cuGraphNodeGetType(node, &made.type); code != CUDA_SUCCESS)
      return driver_error(api, code, "cuGraphNodeGetType");
    if (made.type == CU_GRAPH_NODE_TYPE_KERNEL) {
      CUDA_KERNEL_NODE_PARAMS params{};  // kernels of other libraries may have none that the driver tells
      if (api.cuGraphKernelNodeGetParams(node, &params) == CUDA_SUCCESS) made.function = params.func;
    }
    const std::vector<const Edge*>& before = into[node];
    made.programmatic = before.size() == 1 && !order.empty() && before.front()->from == order.back() &&
                        before.front()->programmatic;
    order.push_back(node);
    found.push_back(made);
    for (const Edge* edge : out_of[node])
      if (--missing[edge->to] == 0) ready.push_back(edge->to);
  }
  return found;
}

const char* name_of(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: return "a kernel";
    case CU_GRAPH_NODE_TYPE_MEMCPY: return "a copy";
    case CU_GRAPH_NODE_TYPE_MEMSET: return "a memset";
    case CU_GRAPH_NODE_TYPE_HOST: return "a host function";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return "an event";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return "an allocation";
    default: return "a node that is no kernel";
  }
}

}  // namespace sluice
