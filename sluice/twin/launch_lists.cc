// SPDX-License-Identifier: Apache-2.0
// Turns a recording of kernels/gemm.cuh into the events that other launches can observe. See launch_lists.h.
#include <sluice/twin/launch_lists.h>

#include <algorithm>

#include <sluice/twin/local_rules.h>

namespace sluice::twin {
namespace {

constexpr OperandEvent reads(Operand operand) {
  return {EventKind::read, operand};
}
constexpr OperandEvent writes(Operand operand) {
  return {EventKind::write, operand};
}

/// Returns the epilogue's reads of operands in global memory: C and a bias.
std::vector<OperandEvent> epilogue_reads(const KernelConfig& c) {
  std::vector<OperandEvent> events{reads(Operand::weights)};
  if (c.epilogue.residual) events.push_back(reads(Operand::residual));
  return events;
}

/// Returns the events of a step. The switch has no default case, so that for each new step somebody decides
/// which of its effects other launches can observe.
std::vector<OperandEvent> events_of(const Step& step, const KernelConfig& c) {
  switch (step.kind) {
    case StepKind::load_a: return {reads(is_swapped(c) ? Operand::weights : Operand::tokens)};
    case StepKind::load_b: return {reads(is_swapped(c) ? Operand::tokens : Operand::weights)};
    case StepKind::stage_vectors: {
      std::vector<OperandEvent> events = epilogue_reads(c);
      events.push_back(reads(Operand::token_scales));
      return events;
    }
    case StepKind::fetch_scales:
    case StepKind::read_tensor_scales: return {reads(Operand::token_scales), reads(Operand::weights)};
    case StepKind::write_chunk: return epilogue_reads(c);
    case StepKind::read_list: return {reads(Operand::table)};
    case StepKind::copy_chunk:
    case StepKind::issue_store: return {writes(Operand::output)};
    case StepKind::store_direct: {
      std::vector<OperandEvent> events = epilogue_reads(c);
      events.push_back(writes(Operand::output));
      return events;
    }
    case StepKind::write_partial: return {writes(Operand::slots)};
    case StepKind::sum_partials: return {reads(Operand::slots)};
    case StepKind::elect:
    case StepKind::reset_counter: return {writes(Operand::counters)};
    case StepKind::wait_prerequisites: return {{EventKind::wait}};
    case StepKind::launch_dependents: return {{EventKind::trigger}};
    // Steps inside the cluster:
    case StepKind::fetch_strided:  // load_a or load_b follows
    case StepKind::wait_empty:
    case StepKind::expect:
    case StepKind::write_scales:
    case StepKind::arrive_full:
    case StepKind::wait_full:
    case StepKind::read_scales:
    case StepKind::read_columns:
    case StepKind::issue_mma:
    case StepKind::pass_stage:
    case StepKind::clear_rest:
    case StepKind::retire_older:
    case StepKind::retire_all:
    case StepKind::arrive_empty:
    case StepKind::wait_turn:
    case StepKind::pass_turn:
    case StepKind::begin_tile:
    case StepKind::promote:
    case StepKind::wait_vectors:
    case StepKind::wait_store:
    case StepKind::publish:
    case StepKind::sync_arrive:
    case StepKind::sync_wait:
    case StepKind::wait_sums_empty:
    case StepKind::expect_sums:
    case StepKind::send_sums:
    case StepKind::wait_sums_full:
    case StepKind::receive_sums:
    case StepKind::arrive_sums_empty: return {};
  }
  return {};
}

/// Returns whether the load thread triggers first of all, in Machine::start (device/machine.cuh), which the
/// twin does not record.
bool triggers_at_start(const KernelConfig& c) {
  return c.combine == Combine::separate || c.overlap.trigger == Trigger::at_start;
}

std::vector<OperandEvent> agent_events(const StepList& steps, const Scenario& scenario, Role role) {
  std::vector<OperandEvent> events;
  if (role == Role::load && triggers_at_start(scenario.config)) events.push_back({EventKind::trigger});
  for (const Step& step : steps)
    for (const OperandEvent& event : events_of(step, scenario.config))
      if (std::find(events.begin(), events.end(), event) == events.end()) events.push_back(event);
  return events;
}

const std::string& name_in(const LaunchArrays& arrays, Operand operand) {
  switch (operand) {
    case Operand::tokens: return arrays.tokens;
    case Operand::weights: return arrays.weights;
    case Operand::token_scales: return arrays.token_scales;
    case Operand::table: return arrays.table;
    case Operand::residual: return arrays.residual;
    case Operand::output: return arrays.output;
    case Operand::output_scales: return arrays.output_scales;
    case Operand::sum: return arrays.sum;
    case Operand::slots:
    case Operand::counters: break;
  }
  return arrays.workspace;
}

}  // namespace

KernelLists gemm_lists(const Recording& recording) {
  KernelLists lists;
  for (const ClusterProgram& program : recording.clusters) {
    const Scenario& scenario = program.scenario;
    lists.dependent = scenario.config.overlap.wait != Wait::none;
    const size_t first_cta = lists.ctas.size();
    lists.ctas.resize(first_cta + static_cast<size_t>(scenario.ctas()));
    for (int i = 0; i < scenario.agents(); ++i) {
      const Agent agent = agent_at(scenario, i);
      lists.ctas[first_cta + static_cast<size_t>(agent.cta)].push_back(
          {"cluster " + std::to_string(program.cluster) + " " + agent_name(scenario, i),
           agent_events(program.agents[i], scenario, agent.role)});
    }
  }
  return lists;
}

ChainLaunch launch_of(const KernelLists& lists, const LaunchArrays& arrays) {
  ChainLaunch launch{arrays.name, arrays.edge, {}};
  if (!lists.dependent && launch.edge == Edge::dependent) launch.edge = Edge::stream;
  for (const std::vector<AgentList>& cta : lists.ctas) {
    launch.ctas.emplace_back();
    for (const AgentList& agent : cta) {
      ChainAgent bound{agent.name, {}};
      for (const OperandEvent& event : agent.events) {
        if (event.kind == EventKind::trigger || event.kind == EventKind::wait) {
          bound.events.push_back({event.kind, {}});
          continue;
        }
        const std::string& array = name_in(arrays, event.operand);
        if (array.empty()) continue;
        const bool counts = event.operand == Operand::counters, slots = event.operand == Operand::slots;
        bound.events.push_back({event.kind, array + (counts ? "'s counters" : slots ? "'s slots" : "")});
      }
      launch.ctas.back().agents.push_back(std::move(bound));
    }
  }
  return launch;
}

}  // namespace sluice::twin
