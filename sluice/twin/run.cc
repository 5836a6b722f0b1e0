// SPDX-License-Identifier: Apache-2.0
// Runs every cluster in one random interleaving, with real numbers. See run.h.
#include <sluice/twin/run.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <sluice/twin/numbers.h>
#include <sluice/twin/picker.h>
#include <sluice/twin/recording.h>

namespace sluice::twin {
namespace {

Result<void> check_buffers(const Work& work) {
  const auto missing = [](const char* name, const char* rule) {
    return Error{ErrorCode::invalid_pointer, fmt::format("{} is null, but {}: pass host memory", name, rule)};
  };
  const Epilogue& e = work.problem.epilogue;
  const bool multiplies = work.scalars.alpha != 0.0f, has_products = multiplies && work.problem.k > 0;
  if (work.buffers.d == nullptr) return missing("d", "every run writes it");
  if (has_products && work.buffers.a == nullptr) return missing("a", "alpha and k are not 0");
  if (has_products && work.buffers.b == nullptr) return missing("b", "alpha and k are not 0");
  if (e.residual && work.scalars.beta != 0.0f && work.buffers.c == nullptr)
    return missing("c", "the epilogue has a residual and beta is not 0");
  if (multiplies && scale_a_count(work.problem) > 0 && work.buffers.scale_a == nullptr)
    return missing("scale_a", "the epilogue scales rows");
  if (multiplies && scale_b_count(work.problem) > 0 && work.buffers.scale_b == nullptr)
    return missing("scale_b", "the epilogue scales columns");
  if (e.scale_d == ScaleMode::tensor && work.buffers.scale_d == nullptr)
    return missing("scale_d", "the epilogue divides by it");
  if (writes_scales(e) && work.buffers.scale_out == nullptr)
    return missing("scale_out", "the epilogue writes the scales of D");
  if (e.row_factors && work.buffers.row_factors == nullptr)
    return missing("row_factors", "the epilogue multiplies by them");
  if (e.bias != Bias::none && work.buffers.bias == nullptr) return missing("bias", "the epilogue adds it");
  if (reads_table(work.problem) && work.buffers.groups == nullptr)
    return missing("groups", "the problem has groups");
  return {};
}

/// Returns the buffers for the product with swapped operands.
HostBuffers swapped(HostBuffers buffers) {
  std::swap(buffers.a, buffers.b);
  std::swap(buffers.scale_a, buffers.scale_b);
  return buffers;
}

/// Removes, for each enabled election, the outcome that the counter's value rules out.
void keep_true_elections(const Simulator& simulator, const Numbers& numbers, const State& state,
                         std::vector<Transition>& enabled) {
  std::erase_if(enabled, [&](Transition t) {
    const Step* elect = simulator.election(state, t);
    return elect != nullptr && simulator.wins(t) != numbers.is_last(simulator.agent_of(t), *elect);
  });
}

/// Runs one cluster to its end.
std::optional<Failure> run_cluster(const Simulator& simulator, Numbers& numbers, u64 seed,
                                   TwinReport& report) {
  Picker picker(seed, simulator.transitions(), simulator.total_steps());
  State state = simulator.initial(&numbers);
  std::vector<Transition> enabled;
  Transition last = -1;
  for (simulator.enabled(state, enabled); !enabled.empty(); simulator.enabled(state, enabled)) {
    keep_true_elections(simulator, numbers, state, enabled);
    const Transition next = picker.pick(enabled);
    ++report.steps;
    if (next != last) ++report.context_switches;
    last = next;
    if (auto failure = simulator.apply(state, next, &numbers)) {
      failure->waiting = simulator.describe_waiting(state);
      return failure;
    }
    if (numbers.refused()) return numbers.refused();
  }
  return simulator.check_end(state);
}

bool has_work(const ClusterProgram& cluster) {
  return std::any_of(cluster.agents.begin(), cluster.agents.end(), [](const StepList& steps) {
    return std::any_of(steps.begin(), steps.end(),
                       [](const Step& step) { return step.kind == StepKind::begin_tile; });
  });
}

}  // namespace

Result<TwinReport> run_on_host(const Plan& plan, const HostBuffers& buffers, float alpha, float beta,
                               u64 seed) {
  if (const char* rule = validate(plan.config))
    return Error{ErrorCode::invalid_config, fmt::format("the plan's config cannot run: {}", rule)};
  if (is_plain(plan.config.schedule))
    return Error{ErrorCode::invalid_config,
                 "plain schedules have no roles to simulate: plan with another schedule"};
  if (plan.split.clusters < 1 || plan.split.group < 1)
    return Error{ErrorCode::invalid_config, fmt::format("{} clusters in bands of {}: both must be at least 1",
                                                        plan.split.clusters, plan.split.group)};
  if (plan.config.conv != kind_of(plan.problem.conv))
    return Error{ErrorCode::invalid_config,
                 "the plan's config gathers another convolution than the problem's: plan it again"};
  if (!reads_groups_of(plan.config, plan.problem))
    return Error{
        ErrorCode::invalid_config,
        fmt::format("the plan's config reads groups by {}, at most {}, and the problem has {} by {}: "
                    "plan it again",
                    name_of(plan.config.groups.kind), plan.config.groups.most, plan.problem.batch,
                    name_of(plan.problem.groups.kind))};
  const Work work{product_of(with_strides(plan.problem), plan.config),
                  plan.config,
                  is_swapped(plan.config) ? swapped(buffers) : buffers,
                  {.alpha = alpha, .beta = beta}};
  const Problem& p = work.problem;
  TwinReport report;
  if (p.m == 0 || p.n == 0 || p.batch == 0) return report;
  if (auto checked = check_buffers(work); !checked) return checked.error();
  if (leaves_d(p, alpha)) return report;

  Scenario scenario{.config = plan.config,
                    .m = static_cast<int>(p.m),
                    .n = static_cast<int>(p.n),
                    .k = alpha != 0.0f ? static_cast<int>(p.k) : 0,
                    .batch = static_cast<int>(p.batch),
                    .split = plan.split,
                    .conv = p.conv};
  if (reads_table(p))
    scenario.groups = read_groups(plan.config, p.groups, static_cast<int>(group_total(p)),
                                  {buffers.groups, static_cast<size_t>(p.batch)});
  const auto broken = [&](Failure failure, int cluster) {
    failure.seed = seed;
    return Error{ErrorCode::internal, fmt::format("host twin, cluster {}: a protocol rule is broken. {}",
                                                  cluster, describe(failure))};
  };
  const Recording recording = record_gemm(scenario);
  if (recording.failure) return broken(*recording.failure, 0);
  report.tiles = static_cast<i64>(scenario.list_size()) * scenario.ctas();
  Workspace workspace(work.config, scenario.split);
  for (const ClusterProgram& cluster : recording.clusters) {
    if (!has_work(cluster)) continue;
    ++report.clusters;
    Numbers numbers(work, scenario, workspace);
    const Simulator simulator(cluster);
    if (auto failure = run_cluster(simulator, numbers, seed + static_cast<u64>(cluster.cluster), report))
      return broken(std::move(*failure), cluster.cluster);
    report.loads += numbers.loads();
    report.stores += numbers.stores();
  }
  if (work.config.combine == Combine::separate) {
    Numbers sums(work, scenario, workspace);
    sums.sum_parts();
    report.stores += sums.stores();
  }
  for (size_t i = 0; i < workspace.counters.size(); ++i)
    if (workspace.counters[i] != 0)
      return broken({FailureKind::counter_left,
                     fmt::format("counter {} is {} after the launch", i, workspace.counters[i])},
                    0);
  return report;
}

}  // namespace sluice::twin
