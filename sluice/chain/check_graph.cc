// SPDX-License-Identifier: Apache-2.0
// Compares a graph that somebody else captured with the chain's launches. What the chain launches is read
// from a capture of its parts, so that both sides are the driver's words.
#include <map>

#include <sluice/chain/chain.h>
#include <sluice/run/driver/events.h>
#include <sluice/run/driver/graph_edges.h>
#include <sluice/try.h>

namespace sluice {
namespace {

/// A node that the graph must have.
struct Wanted {
  size_t step = 0;
  CUfunction function = nullptr;  // null: a launch of a gap, or of a foreign step
  bool programmatic = false;      // the edge in front of it
  bool known = true;              // which edge it has is known: not between the launches of a gap
  bool foreign = false;           // its edge is checked, and its function is not
};

/// Returns the first place at which `found` and `wanted` differ if `wanted` began at `begin`; wanted.size():
/// none.
size_t same_until(const std::vector<GraphNode>& found, size_t begin, const std::vector<Wanted>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (begin + i >= found.size()) return i;
    const GraphNode& node = found[begin + i];
    if (!wanted[i].foreign && node.function != wanted[i].function) return i;
  }
  return wanted.size();
}

Result<std::vector<Wanted>> wanted_nodes(const Chain& chain, const WorkspaceView& workspace) {
  const Chain::Impl& impl = chain.impl();
  SLUICE_TAKE(const StreamHandle stream, StreamHandle::create(impl.device));
  std::vector<Wanted> wanted;
  std::map<int, std::vector<GraphNode>> known;  // by plan: steps of one plan have the same kernels
  size_t launch = 0;
  for (size_t step = 0; step < impl.plan.steps.size(); ++step) {
    const PlannedStep& planned = impl.plan.steps[step];
    if (!planned.launched) continue;
    const ChainLaunch& made = impl.launches[launch++];
    const bool foreign = step_of(planned.step)->own_overlap().has_value();
    std::vector<GraphNode> nodes(static_cast<size_t>(made.kernels));
    if (!foreign && !known.contains(planned.plan)) {
      const auto read = [&](CUgraph graph) -> Result<void> {
        SLUICE_TAKE(known[planned.plan], nodes_in_order(*impl.device.impl().api, graph));
        return {};
      };
      const auto enqueue = [&] { return made.launch(workspace, stream.get()); };
      SLUICE_TAKE(const Graph graph, Graph::capture(impl.device, stream.get(), enqueue, read));
    }
    if (!foreign) nodes = known[planned.plan];
    for (size_t i = 0; i < nodes.size(); ++i)
      wanted.push_back({.step = step,
                        .function = nodes[i].function,
                        .programmatic = i == 0 && planned.overlap.wait != Wait::none,
                        .known = !foreign || i == 0,
                        .foreign = foreign});
  }
  return wanted;
}

}  // namespace

Result<void> Chain::check(CUgraph_st* graph) const {
  SLUICE_TAKE(const std::vector<GraphNode> found, nodes_in_order(*impl_->device.impl().api, graph));
  // Kernels only have to be enqueued; nothing runs in a capture.
  SLUICE_TAKE(const Workspace workspace, Workspace::create(impl_->device, workspace_bytes()));
  SLUICE_TAKE(const std::vector<Wanted> wanted, wanted_nodes(*this, workspace.view()));
  if (wanted.empty()) return {};
  const auto name = [&](size_t i) {
    return step_name(impl_->plan.steps[wanted[i].step].step, wanted[i].step);
  };
  size_t begin = 0, matched = 0;
  for (size_t at = 0; at < found.size() && matched < wanted.size(); ++at)
    if (const size_t here = same_until(found, at, wanted); here > matched) begin = at, matched = here;
  if (matched < wanted.size()) {
    const std::string what = name(matched);
    if (begin + matched >= found.size())
      return Error{ErrorCode::internal,
                   what + ": the graph ends before its launch; it has " + std::to_string(found.size()) +
                       " nodes, and the chain " + std::to_string(wanted.size()) +
                       ": enqueue all parts, and all launches of gaps, during the capture"};
    const bool behind_gap = matched > 0 && wanted[matched - 1].foreign;
    return Error{ErrorCode::internal,
                 what + ": in its place the graph has " + name_of(found[begin + matched].type) +
                     (behind_gap ? " behind the gap " + name(matched - 1) +
                                       ": say in `nodes` how many launches the gap has"
                                 : ": nothing may stand between two launches of a chain; move it to another "
                                   "stream, in front or behind, or make it a gap")};
  }
  for (size_t i = 1; i < wanted.size(); ++i) {
    if (!wanted[i].known) continue;
    if (!wanted[i].programmatic && found[begin + i].programmatic)
      return Error{
          ErrorCode::internal,
          name(i) + ": it may begin before " + name(i - 1) +
              " has ended, and the chain has an ordinary edge there: if the gap's first kernel waits, "
              "say waits = true, else launch it without programmatic stream serialisation"};
    if (wanted[i].programmatic && !found[begin + i].programmatic)
      return Error{ErrorCode::internal,
                   name(i) + ": it begins behind an ordinary edge, and the chain lets it begin before " +
                       name(i - 1) + " has ended: " +
                       (wanted[i].foreign
                            ? "launch the gap's first kernel with programmatic stream serialisation, or say "
                              "waits = false"
                        : wanted[i - 1].foreign
                            ? "the gap's last node must be a kernel, or say that the gap does not trigger"
                            : "an event or another stream joins between them; keep the parts in one "
                              "stream")};
  }
  return {};
}

}  // namespace sluice
