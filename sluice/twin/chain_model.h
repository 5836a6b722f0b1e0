// SPDX-License-Identifier: Apache-2.0
// Consecutive launches of a stream that may begin before earlier ones have ended (spec/overlap.h), as a model
// for search.h. A launch consists of CTAs, a CTA of agents (threads with one role). An agent executes a fixed
// list of events and then exits. Launches are ordered only by CUDA's guarantees:
// - CTAs of a dependent launch begin, each at any time, once each CTA of the previous launch has triggered
// (one
//   agent is enough) or exited. CTAs of other launches begin when earlier launches are complete (Edge).
// - `wait` returns once the previous launch is complete. It guarantees nothing about launches before that
// one.
// - A launch is complete some time after its last CTA has exited; its writes are then visible.
// Agents of one CTA do not wait for each other here. That only adds interleavings, so a chain without
// failures here has none on the GPU; the contract requires each agent to wait by itself anyway. Used by
// chain.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sluice/twin/failure.h>
#include <sluice/twin/simulator.h>

namespace sluice::twin {

/// spin: waits until another launch has written the buffer, a flag. No kernel of ours spins; a foreign kernel
/// may.
enum class EventKind : u8 { trigger, wait, read, write, spin };

/// An event. An access may take effect at any time from here until its launch is complete. It is enough to
/// check rules at its begin: they require that other launches are complete, which stays true.
struct ChainEvent {
  EventKind kind = EventKind::wait;
  std::string buffer;

  bool operator==(const ChainEvent&) const = default;
};

struct ChainAgent {
  std::string name;
  std::vector<ChainEvent> events;
};
struct ChainCta {
  std::vector<ChainAgent> agents;
};

/// When CTAs of a launch may begin. stream: all earlier launches are complete. graph: the previous launch is
/// complete; an edge of a captured graph guarantees no more. dependent: the previous launch has triggered.
enum class Edge : u8 { stream, graph, dependent };

struct ChainLaunch {
  std::string name;
  Edge edge = Edge::dependent;
  std::vector<ChainCta> ctas;
};

/// Interleavings that the search skips because others find the same failures; each value skips more than the
/// previous one. equals: no rule or event depends on which of several equal agents or CTAs moved. segments:
/// an agent's events between two waits are executed at once, at the time of the first. That misses no
/// failure: events only move to earlier times, when no more launches are complete, so a broken rule stays
/// broken. Earlier triggers, flags and exits only enable others; waits and completions keep their times.
enum class Reduction : u8 {
  none,     // every interleaving of single events
  equals,   // one of several equal agents of a CTA, or equal CTAs of a launch, moves first
  segments  // an agent's events until its first wait, or from one wait to the next or its end, are one step
};

struct ChainRules {
  std::vector<FailureKind> left_out;  // rules that are not checked, to show that a rule is needed
  Reduction reduction = Reduction::segments;
};

class ChainModel {
 public:
  explicit ChainModel(std::vector<ChainLaunch> chain, ChainRules rules = {});

  State initial() const { return State(1 + agents_.size(), 0); }
  void enabled(const State& state, std::vector<Transition>& out) const;
  std::optional<Failure> apply(State& state, Transition transition) const;
  std::optional<Failure> check_end(const State& state) const;
  std::string describe_transition(const State& state, Transition transition) const;
  std::string describe_waiting(const State& state) const;

 private:
  struct Event {
    EventKind kind;
    int buffer;
    bool operator==(const Event&) const = default;
  };
  struct Agent {
    int launch, cta;
    std::string name;
    std::vector<Event> events;
    u32 triggered_from;  // the first position after its first trigger
  };
  struct Cta {
    int first, end;    // its agents
    bool equals_last;  // the CTA before it in the launch has the same lists
  };
  struct Launch {
    std::string name;
    Edge edge;
    int first, end;  // its CTAs
  };
  struct Buffer {
    std::string name;
    u32 readers = 0, writers = 0;  // one bit per launch
  };

  int buffer_number(const std::string& name);
  // A state: word 0 has one bit per launch, set if it is complete. Then one word per agent: the number of its
  // past events, plus one after its exit.
  static bool complete(const State& s, int launch) { return (s[0] >> launch & 1) != 0; }
  u32 position(const State& s, int agent) const { return s[1 + agent]; }
  bool has_left(const State& s, int agent) const { return position(s, agent) > agents_[agent].events.size(); }
  bool cta_has_left(const State& s, const Cta& cta) const;
  bool may_begin(const State& s, int launch) const;
  bool can_step(const State& s, int agent) const;
  bool is_written(const State& s, int buffer) const;
  bool is_blocking(const Agent& agent, u32 position) const {
    return position < agent.events.size() &&
           (agent.events[position].kind == EventKind::wait || agent.events[position].kind == EventKind::spin);
  }
  bool goes_on(const Agent& agent, u32 position) const;
  bool same_as_last(const State& s, int agent) const;
  bool same_as_last_cta(const State& s, int cta) const;
  void collapse(State& s, const Launch& launch) const;
  std::optional<Failure> check_access(const State& s, int agent, const Event& event) const;
  std::optional<Failure> check_leave(const State& s, int agent) const;
  std::optional<Failure> fail(FailureKind kind, std::string message) const;
  std::string text_of(const Agent& agent) const;
  std::string text_of(const Event& event) const;
  int first_complete() const { return static_cast<int>(agents_.size()); }

  ChainRules rules_;
  std::vector<Launch> launches_;
  std::vector<Cta> ctas_;
  std::vector<Agent> agents_;
  std::vector<Buffer> buffers_;
};

}  // namespace sluice::twin
