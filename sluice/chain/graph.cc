// SPDX-License-Identifier: Apache-2.0
// Makes a graph of a chain: captures it, counts its nodes and instantiates it.
#include <sluice/chain/chain.h>
#include <sluice/host/driver/events.h>
#include <sluice/host/driver/graph_edges.h>

namespace sluice {

struct ChainGraph::Impl {
  Chain chain;  // kept because the graph refers to its kernels
  Graph graph;
  GraphEdges found;
};

Result<ChainGraph> ChainGraph::capture(const Chain& chain, Stream stream, const WorkspaceView& workspace) {
  const DriverApi& api = *chain.impl().device.impl().api;
  GraphEdges found;
  const auto inspect = [&](CUgraph graph) -> Result<void> {
    const Result<GraphEdges> counted = count_edges(api, graph);
    if (!counted) return counted.error();
    found = *counted;
    const int kernels = chain.kernels(), wanted = chain.programmatic_edges();
    if (found.nodes == kernels && found.programmatic == wanted) return {};
    return Error{ErrorCode::internal,
                 "the captured graph has " + std::to_string(found.nodes) + " nodes and " +
                     std::to_string(found.programmatic) + " programmatic edges, the chain " +
                     std::to_string(kernels) + " launches and " + std::to_string(wanted) +
                     ": capture into a stream that nothing else is enqueued into, and say in "
                     "ForeignStep::nodes and programmatic_edges what foreign steps add; if so it was, set "
                     "ChainOptions::overlap = off and report the driver's version"};
  };
  Result<Graph> graph = Graph::capture(
      chain.impl().device, stream, [&] { return chain.enqueue(stream, workspace); }, inspect);
  if (!graph) return graph.error();
  return ChainGraph(std::make_shared<const Impl>(Impl{chain, *std::move(graph), found}));
}

Result<void> ChainGraph::replay(Stream stream) const {
  return impl_->graph.launch(stream);
}
int ChainGraph::kernels() const {
  return impl_->found.nodes;
}
int ChainGraph::programmatic_edges() const {
  return impl_->found.programmatic;
}

}  // namespace sluice
