// SPDX-License-Identifier: Apache-2.0
// Prints a state: the next steps, and each waiting agent with its barrier.
#include <fmt/format.h>

#include <sluice/twin/local_rules.h>
#include <sluice/twin/simulator.h>

namespace sluice::twin {

std::string Simulator::describe_transition(const State& state, Transition t) const {
  State s = state;
  if (t < first_slot_ || wins(t)) {
    const Step* step = next_step(s, agent_of(t));
    const char* outcome = election(s, t) == nullptr ? "" : wins(t) ? ", and is the last" : ", not the last";
    return agent_name(scenario_, agent_of(t)) + ": " + (step != nullptr ? to_string(*step) : "done") +
           outcome;
  }
  if (t < first_store_read_) {
    const SlotAt at = slot_at(t);
    const u32 sequence = incoming(s, at);
    return fmt::format("copy engine: slice {} into cta {}: {}", at.slice, at.cta,
                       sequence != 0 ? to_string(load_of(at, sequence)) : "nothing");
  }
  if (t >= first_sums_) {
    const SumsAt at = sums_at(t);
    const u32 number = coming_sums(s, at);
    return fmt::format("network: from {} to cta {}: {}", agent_name(scenario_, sender_agent(at)), at.cta,
                       number != 0 ? to_string(send_of(at, number)) : "nothing");
  }
  const int index = t - first_store_read_, per_cta = kMathGroups * kStoreBuffers;
  return fmt::format("copy engine: has read store buffer {} of cta {} math {}", index % kStoreBuffers,
                     index / per_cta, index % per_cta / kStoreBuffers);
}

std::string Simulator::describe_waiting(const State& state) const {
  State s = state;
  std::string text;
  for (int agent = 0; agent < scenario_.agents(); ++agent) {
    const Step* step = next_step(s, agent);
    if (step == nullptr) continue;
    text += fmt::format("  {}: {} (step {} of {})", agent_name(scenario_, agent), to_string(*step),
                        pc(s, agent), program_.agents[agent].size());
    const Agent at = agent_at(scenario_, agent);
    const auto barrier_text = [](const char* name, int index, const Barrier& b) {
      return fmt::format("; {}[{}] is in phase {}, {} of {} arrivals and {} bytes pending", name, index,
                         b.phase(), b.pending(), b.count, b.pending_bytes());
    };
    if (step->kind == StepKind::wait_empty)
      text += barrier_text("empty", step->stage, empty(s, at.cta, step->stage));
    if (step->kind == StepKind::wait_full)
      text += barrier_text("full", step->stage, full(s, at.cta, step->stage));
    if (step->kind == StepKind::wait_turn) text += barrier_text("turn", at.group, turn(s, at.cta, at.group));
    if (step->kind == StepKind::wait_sums_empty)
      text += barrier_text("sums_empty", at.group, sums_empty(s, at.cta, at.group));
    if (step->kind == StepKind::wait_sums_full)
      text += barrier_text("sums_full", at.group, sums_full(s, at.cta, at.group));
    text += '\n';
  }
  for (Transition t = first_slot_; t < first_store_read_; ++t)
    if (incoming(s, slot_at(t)) != 0) text += "  " + describe_transition(s, t) + '\n';
  for (Transition t = first_sums_; t < first_win_; ++t)
    if (coming_sums(s, sums_at(t)) != 0) text += "  " + describe_transition(s, t) + '\n';
  return text;
}

}  // namespace sluice::twin
