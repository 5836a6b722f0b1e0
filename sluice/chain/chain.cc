// SPDX-License-Identifier: Apache-2.0
// Loads a plan's kernels and binds each step to its kernel, so that enqueue() is just a loop of launches.
#include <sluice/chain/chain.h>

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
  auto impl = std::make_shared<Impl>(Impl{device, plan, {}});
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
  const i64 needed = impl_->plan.workspace_bytes;
  if (needed > 0 && (workspace.data == nullptr || workspace.bytes < needed))
    return Error{ErrorCode::workspace, "the chain needs " + std::to_string(needed) +
                                           " bytes of workspace and got " +
                                           std::to_string(workspace.data == nullptr ? 0 : workspace.bytes) +
                                           ": pass one that no other stream uses"};
  for (const ChainLaunch& step : impl_->launches)
    if (Result<void> launched = step.launch(workspace, stream); !launched) return launched;
  return {};
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

}  // namespace sluice
