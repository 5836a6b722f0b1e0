// SPDX-License-Identifier: Apache-2.0
// Launches behind each other in a stream, each of which may begin before the ones in front have ended
// (spec/overlap.h), as a model for search.h. A launch is CTAs, a CTA is agents, an agent is a fixed list of
// events and then leaves. What orders launches is what CUDA promises and nothing else:
// - a dependent launch's CTAs begin, each at any time, once each CTA of the launch in front has triggered
//   (one agent is enough) or left; any other launch's, once those in front are complete (Edge);
// - `wait` returns once the launch directly in front is complete. Of those before that one it says nothing;
// - a launch is complete some time after its last CTA has left: what it wrote has landed then.
// Agents of one CTA do not wait for each other here. That adds interleavings and takes none away, so a chain
// that is clean is clean on the GPU too; the contract asks each agent to wait for itself in any case. Used by
// chain.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sluice/twin/failure.h>
#include <sluice/twin/simulator.h>

namespace sluice::twin {

/// spin: until somebody has written the buffer, a flag; none of our kernels does it, a foreign one may.
enum class EventKind : u8 { trigger, wait, read, write, spin };

/// An access stands for the whole of what it begins, which may land until its launch is complete. When it
/// begins is all that counts: what the rules ask for (others are complete) stays true once it is.
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

/// When CTAs of a launch may begin. stream: all launches in front are complete. graph: the one directly in
/// front is; an edge of a captured graph promises no more. dependent: the one directly in front has
/// triggered.
enum class Edge : u8 { stream, graph, dependent };

struct ChainLaunch {
  std::string name;
  Edge edge = Edge::dependent;
  std::vector<ChainCta> ctas;
};

/// What the search leaves out because it finds the same without it; each more than the one before. Of equal
/// agents and CTAs no rule and no event asks which is how far. Segments: take an interleaving that breaks a
/// rule, and move all of each such step forward to where it began. Accesses and leaving then find no more
/// launches complete than before, so what broke a rule still does; triggers, flags and leaving let others
/// move and keep nobody from it; waits and completions stay where they were.
enum class Reduction : u8 {
  none,     // every interleaving of single events
  equals,   // which of equal agents of a CTA, or of equal CTAs of a launch, is how far
  segments  // what an agent does until its first wait, or from a wait on until the next or its end: one step
};

struct ChainRules {
  std::vector<FailureKind> left_out;  // not checked: what would have passed without them?
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
    u32 triggered_from;  // its first trigger is behind it from this position on
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
    u32 readers = 0, writers = 0;  // a bit for each launch
  };

  int buffer_number(const std::string& name);
  // A state: the launches that are complete, a bit each; then how many events each agent has behind it, and
  // one more once it has left.
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
