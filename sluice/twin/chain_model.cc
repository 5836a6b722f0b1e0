// SPDX-License-Identifier: Apache-2.0
// See chain_model.h.
#include <sluice/twin/chain_model.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace sluice::twin {
namespace {

const char* verb_of(EventKind kind) {
  switch (kind) {
    case EventKind::trigger: return "triggers";
    case EventKind::wait: return "waits";
    case EventKind::read: return "reads ";
    case EventKind::write: return "writes ";
    case EventKind::spin: return "spins on ";
  }
  return "?";
}

}  // namespace

ChainModel::ChainModel(std::vector<ChainLaunch> chain, ChainRules rules) : rules_(std::move(rules)) {
  for (int l = 0; l < static_cast<int>(chain.size()); ++l) {
    const int first_cta = static_cast<int>(ctas_.size());
    for (ChainCta& cta : chain[l].ctas) {
      const int first = static_cast<int>(agents_.size());
      for (ChainAgent& from : cta.agents) {
        Agent agent{l, static_cast<int>(ctas_.size()), std::move(from.name), {}, ~0u};
        for (const ChainEvent& event : from.events) {
          const int buffer = event.buffer.empty() ? -1 : buffer_number(event.buffer);
          agent.events.push_back({event.kind, buffer});
          if (event.kind == EventKind::read) buffers_[buffer].readers |= 1u << l;
          if (event.kind == EventKind::write) buffers_[buffer].writers |= 1u << l;
          if (event.kind == EventKind::trigger && agent.triggered_from == ~0u)
            agent.triggered_from = static_cast<u32>(agent.events.size());
        }
        agents_.push_back(std::move(agent));
      }
      const int end = static_cast<int>(agents_.size());
      const bool has_last = static_cast<int>(ctas_.size()) > first_cta;
      const bool equal =
          has_last && std::equal(agents_.begin() + first, agents_.begin() + end,
                                 agents_.begin() + ctas_.back().first, agents_.begin() + ctas_.back().end,
                                 [](const Agent& x, const Agent& y) { return x.events == y.events; });
      ctas_.push_back({first, end, equal});
    }
    launches_.push_back({std::move(chain[l].name), chain[l].edge, first_cta, static_cast<int>(ctas_.size())});
  }
}

int ChainModel::buffer_number(const std::string& name) {
  const auto found =
      std::find_if(buffers_.begin(), buffers_.end(), [&](const Buffer& b) { return b.name == name; });
  if (found != buffers_.end()) return static_cast<int>(found - buffers_.begin());
  buffers_.push_back({.name = name});
  return static_cast<int>(buffers_.size()) - 1;
}

bool ChainModel::cta_has_left(const State& s, const Cta& cta) const {
  for (int agent = cta.first; agent < cta.end; ++agent)
    if (!has_left(s, agent)) return false;
  return true;
}

/// Returns whether CTAs of a launch may begin. An earlier launch that has not begun has neither triggered nor
/// exited: even an agent without events exits only after its own launch may begin.
bool ChainModel::may_begin(const State& s, int launch) const {
  if (launch == 0) return true;
  const u32 in_front = (1u << launch) - 1;
  switch (launches_[launch].edge) {
    case Edge::stream: return (s[0] & in_front) == in_front;
    case Edge::graph: return complete(s, launch - 1);
    case Edge::dependent: break;
  }
  for (int c = launches_[launch - 1].first; c < launches_[launch - 1].end; ++c) {
    const Cta& cta = ctas_[c];
    bool triggered = false;
    for (int a = cta.first; a < cta.end && !triggered; ++a)
      triggered = position(s, a) >= agents_[a].triggered_from;
    if (!triggered && !cta_has_left(s, cta)) return false;
  }
  return true;
}

bool ChainModel::is_written(const State& s, int buffer) const {
  for (int a = 0; a < static_cast<int>(agents_.size()); ++a) {
    const std::vector<Event>& events = agents_[a].events;
    const auto end = events.begin() + std::min<size_t>(position(s, a), events.size());
    if (std::find(events.begin(), end, Event{EventKind::write, buffer}) != end) return true;
  }
  return false;
}

bool ChainModel::can_step(const State& s, int agent) const {
  const Agent& a = agents_[agent];
  if (position(s, agent) >= a.events.size()) return !has_left(s, agent);
  const Event& event = a.events[position(s, agent)];
  if (event.kind == EventKind::wait)
    return launches_[a.launch].edge != Edge::dependent || a.launch == 0 || complete(s, a.launch - 1);
  return event.kind != EventKind::spin || is_written(s, event.buffer);
}

/// Returns whether the previous agent is equal and at the same position. Then only that one is moved, because
/// moving this agent leads to an equivalent state.
bool ChainModel::same_as_last(const State& s, int agent) const {
  return rules_.reduction != Reduction::none && agent > ctas_[agents_[agent].cta].first &&
         agents_[agent].events == agents_[agent - 1].events && position(s, agent) == position(s, agent - 1);
}
bool ChainModel::same_as_last_cta(const State& s, int cta) const {
  const Cta& c = ctas_[cta];
  return rules_.reduction != Reduction::none && c.equals_last &&
         std::equal(s.begin() + 1 + c.first, s.begin() + 1 + c.end, s.begin() + 1 + ctas_[cta - 1].first);
}

void ChainModel::enabled(const State& s, std::vector<Transition>& out) const {
  out.clear();
  for (int l = 0; l < static_cast<int>(launches_.size()); ++l) {
    if (complete(s, l) || !may_begin(s, l)) continue;
    bool all_left = true;
    for (int c = launches_[l].first; c < launches_[l].end; ++c) {
      all_left = all_left && cta_has_left(s, ctas_[c]);
      if (same_as_last_cta(s, c)) continue;
      for (int a = ctas_[c].first; a < ctas_[c].end; ++a)
        if (!same_as_last(s, a) && can_step(s, a)) out.push_back(a);
    }
    if (all_left) out.push_back(first_complete() + l);
  }
}

/// Sorts equal agents and equal CTAs of a launch by position, so that equivalent states become one state. No
/// rule and no event depends on the number of an agent or CTA, so those with equal lists can be exchanged.
void ChainModel::collapse(State& s, const Launch& launch) const {
  for (int c = launch.first; c < launch.end; ++c)
    for (int first = ctas_[c].first, a = first + 1; a <= ctas_[c].end; ++a) {
      if (a < ctas_[c].end && agents_[a].events == agents_[first].events) continue;
      std::sort(s.begin() + 1 + first, s.begin() + 1 + a);
      first = a;
    }
  // Insertion sort: there are few CTAs, and only one has changed.
  for (int from = launch.first + 1; from < launch.end; ++from)
    for (int c = from; c > launch.first && ctas_[c].equals_last; --c) {
      const auto last = s.begin() + 1 + ctas_[c - 1].first, here = s.begin() + 1 + ctas_[c].first;
      const auto end = s.begin() + 1 + ctas_[c].end;
      if (!std::lexicographical_compare(here, end, last, here)) break;
      std::swap_ranges(here, end, last);
    }
}

std::optional<Failure> ChainModel::apply(State& s, Transition t) const {
  if (t >= first_complete()) {
    s[0] |= 1u << (t - first_complete());
    return std::nullopt;
  }
  const Agent& agent = agents_[t];
  std::optional<Failure> failure;
  do {
    const u32 at = s[1 + t]++;
    failure = at < agent.events.size() ? check_access(s, t, agent.events[at]) : check_leave(s, t);
  } while (!failure && goes_on(agent, s[1 + t]));
  if (rules_.reduction != Reduction::none) collapse(s, launches_[agent.launch]);
  return failure;
}

/// Returns true if the agent's current step includes `position`. A step extends to the next wait, or to the
/// agent's exit.
bool ChainModel::goes_on(const Agent& agent, u32 position) const {
  return rules_.reduction == Reduction::segments && position <= agent.events.size() &&
         !is_blocking(agent, position);
}

std::optional<Failure> ChainModel::fail(FailureKind kind, std::string message) const {
  const std::vector<FailureKind>& out = rules_.left_out;
  if (std::find(out.begin(), out.end(), kind) != out.end()) return std::nullopt;
  return Failure{.kind = kind, .message = std::move(message)};
}

std::optional<Failure> ChainModel::check_access(const State& s, int a, const Event& event) const {
  if (event.kind != EventKind::read && event.kind != EventKind::write) return std::nullopt;
  const Agent& agent = agents_[a];
  const Buffer& buffer = buffers_[event.buffer];
  const u32 running = ((1u << agent.launch) - 1) & ~s[0];  // earlier launches that are not complete
  const auto other = [&](u32 launches) { return launches_[std::countr_zero(launches)].name; };
  const u32 writers = buffer.writers & running, readers = buffer.readers & running;
  std::optional<Failure> failure;
  if (event.kind == EventKind::read && writers != 0)
    return fail(FailureKind::read_early, text_of(agent) + " " + text_of(event) + ", which " + other(writers) +
                                             " may still write: it is not complete");
  if (event.kind == EventKind::write && readers != 0)
    failure = fail(FailureKind::write_over_read, text_of(agent) + " " + text_of(event) + ", which " +
                                                     other(readers) + " may still read: it is not complete");
  if (event.kind == EventKind::write && writers != 0 && !failure)
    failure =
        fail(FailureKind::write_over_write, text_of(agent) + " " + text_of(event) + ", which " +
                                                other(writers) + " may still write: it is not complete");
  return failure;
}

/// Checks that every CTA waits before it exits. The contract requires that even where a missing wait is
/// harmless.
std::optional<Failure> ChainModel::check_leave(const State& s, int a) const {
  const Agent& agent = agents_[a];
  if (agent.launch == 0 || launches_[agent.launch].edge != Edge::dependent) return std::nullopt;
  if (complete(s, agent.launch - 1) || !cta_has_left(s, ctas_[agent.cta])) return std::nullopt;
  return fail(FailureKind::no_wait, text_of(agent) + " leaves, the last of its CTA, before " +
                                        launches_[agent.launch - 1].name + " is complete");
}

std::optional<Failure> ChainModel::check_end(const State& s) const {
  for (int l = 0; l < static_cast<int>(launches_.size()); ++l) {
    if (complete(s, l)) continue;
    std::optional<Failure> failure =
        fail(FailureKind::deadlock, "nobody can move, and " + launches_[l].name + " is not complete");
    if (failure) failure->waiting = describe_waiting(s);
    return failure;
  }
  return std::nullopt;
}

std::string ChainModel::text_of(const Agent& agent) const {
  return fmt::format("launch {} ({}), {}", agent.launch, launches_[agent.launch].name, agent.name);
}
std::string ChainModel::text_of(const Event& event) const {
  return verb_of(event.kind) + (event.buffer < 0 ? std::string() : buffers_[event.buffer].name);
}

std::string ChainModel::describe_transition(const State& s, Transition t) const {
  if (t >= first_complete()) {
    const int launch = t - first_complete();
    return fmt::format("launch {} ({}) is complete", launch, launches_[launch].name);
  }
  const Agent& agent = agents_[t];
  u32 at = position(s, t);
  if (at > agent.events.size()) return text_of(agent) + " has left";
  std::string text = text_of(agent);
  const char* separator = " ";
  do {
    text += separator + (at < agent.events.size() ? text_of(agent.events[at]) : "leaves");
    separator = ", ";
  } while (goes_on(agent, ++at));
  return text;
}

std::string ChainModel::describe_waiting(const State& s) const {
  std::string text;
  for (int a = 0; a < static_cast<int>(agents_.size()); ++a)
    if (!has_left(s, a))
      text += fmt::format("  {}{}\n", describe_transition(s, a),
                          may_begin(s, agents_[a].launch) ? "" : " (may not begin)");
  return text;
}

}  // namespace sluice::twin
