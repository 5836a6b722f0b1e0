// SPDX-License-Identifier: Apache-2.0
// Loads a plan's kernels and binds each step to its kernel, so that enqueue() is just a loop of launches.
// Makes a graph of a chain: captures it, counts its nodes and instantiates it.
#include <sluice/chain/chain.h>

#include <sluice/run/driver/events.h>
#include <sluice/run/driver/graph_edges.h>
#include <numeric>

namespace sluice {
namespace {

template <class Member>
int total(const std::vector<ChainLaunch>& launches, Member member) {
  return std::accumulate(launches.begin(), launches.end(), 0,
                         [&](int sum, const ChainLaunch& launch) { return sum + launch.*member; });
}

/// The kernels of all plans. The first step that has a plan prepares its kernel.
class Kernels {
 public:
  Kernels(const Device& device, const ChainPlan& plan)
      : device_(device), plan_(plan), made_(plan.plans.size()) {}

  Result<std::any> of(const PlannedStep& planned) {
    const auto step = step_of(planned.step);
    if (planned.plan < 0) return step->prepare(device_, {});
    std::optional<Result<std::any>>& made = made_[static_cast<size_t>(planned.plan)];
    if (!made) made = step->prepare(device_, plan_of(plan_, planned));
    return *made;
  }

 private:
  const Device& device_;
  const ChainPlan& plan_;
  std::vector<std::optional<Result<std::any>>> made_;
};

}  // namespace

std::vector<std::string> units_of(const ChainPlan& plan) {
  std::vector<std::string> units;
  std::vector<bool> seen(plan.plans.size());
  for (const PlannedStep& s : plan.steps) {
    if (s.plan < 0 || seen[static_cast<size_t>(s.plan)]) continue;
    seen[static_cast<size_t>(s.plan)] = true;
    for (std::string& unit : step_of(s.step)->units(plan_of(plan, s))) units.push_back(std::move(unit));
  }
  return units;
}

Result<Chain> Chain::prepare(const Device& device, const ChainPlan& plan, const gemm::Progress& progress) {
  SLUICE_TRY(check_chain_plan(plan));
  auto impl = std::make_shared<Impl>(Impl{device, plan, {}, {}});
  // Compiles all units in parallel. Each kernel finds its unit in the cache below, and reports its own error.
  device.impl().cache.get_all(units_of(plan), device.options().jobs, progress);
  Kernels kernels(device, impl->plan);
  for (size_t i = 0; i < impl->plan.steps.size(); ++i) {
    const PlannedStep& planned = impl->plan.steps[i];
    if (!planned.launched) continue;
    const auto bound = [&]() -> Result<ChainLaunch> {
      SLUICE_TAKE(const auto kernel, kernels.of(planned));
      return step_of(planned.step)->bind(kernel, planned);
    }();
    if (!bound) return Error{bound.error().code, step_name(planned.step, i) + ": " + bound.error().message};
    if (!bound->launch) impl->gaps.push_back(impl->launches.size());
    impl->launches.push_back(*bound);
  }
  return Chain(std::move(impl));
}

Result<Chain> Chain::prepare(const Device& device, std::span<const ChainStep> steps,
                             const ChainOptions& options, const gemm::Progress& progress) {
  const Result<ChainPlan> plan = plan_chain(steps, device.info(), options, device.records());
  if (!plan) return plan.error();
  return prepare(device, *plan, progress);
}

Result<void> Chain::enqueue(Stream stream, const WorkspaceView& workspace) const {
  if (parts() > 1)
    return Error{
        ErrorCode::invalid_argument,
        "the chain has " + std::to_string(parts() - 1) +
            " gaps, in which somebody else launches: enqueue its parts one by one (enqueue_part), or "
            "give each gap its ForeignStep::enqueue"};
  return enqueue_part(0, stream, workspace);
}

Result<void> Chain::enqueue_part(int part, Stream stream, const WorkspaceView& workspace) const {
  if (part < 0 || part >= parts())
    return Error{ErrorCode::invalid_argument, "part = " + std::to_string(part) + " must be in 0.." +
                                                  std::to_string(parts() - 1) +
                                                  ": the chain has one part more than gaps"};
  const i64 needed = impl_->plan.workspace_bytes;
  if (needed > 0 && (workspace.data == nullptr || workspace.bytes < needed))
    return Error{ErrorCode::workspace, "the chain needs " + std::to_string(needed) +
                                           " bytes of workspace and got " +
                                           std::to_string(workspace.data == nullptr ? 0 : workspace.bytes) +
                                           ": pass one that no other stream uses"};
  const std::vector<size_t>& gaps = impl_->gaps;
  const auto index = static_cast<size_t>(part);
  const size_t end = index < gaps.size() ? gaps[index] : impl_->launches.size();
  for (size_t i = index == 0 ? 0 : gaps[index - 1] + 1; i < end; ++i)
    if (Result<void> launched = impl_->launches[i].launch(workspace, stream); !launched) return launched;
  return {};
}

int Chain::parts() const {
  return static_cast<int>(impl_->gaps.size()) + 1;
}

const ChainPlan& Chain::plan() const {
  return impl_->plan;
}
int Chain::kernels() const {
  return total(impl_->launches, &ChainLaunch::kernels);
}
int Chain::programmatic_edges() const {
  return total(impl_->launches, &ChainLaunch::programmatic);
}

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
