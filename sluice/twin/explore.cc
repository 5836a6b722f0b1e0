// SPDX-License-Identifier: Apache-2.0
// Depth-first search with a set of seen states, and random interleavings. See explore.h.
#include <sluice/twin/explore.h>

#include <algorithm>

#include <sluice/twin/picker.h>
#include <sluice/twin/simulator.h>
#include <sluice/twin/state_set.h>

namespace sluice::twin {
namespace {

constexpr size_t kTraceSteps = 60;  // the last steps that a failure shows

/// The end of an interleaving as text: it is run again from the start, since states are not kept.
std::string trace_text(const Simulator& simulator, const std::vector<Transition>& path) {
  State state = simulator.initial();
  std::string text;
  for (size_t i = 0; i < path.size(); ++i) {
    if (i + kTraceSteps >= path.size()) text += "  " + simulator.describe_transition(state, path[i]) + '\n';
    if (simulator.apply(state, path[i])) break;
  }
  return text;
}

/// One branching point of the search.
struct Frame {
  State state;
  std::vector<Transition> choices;
  size_t next = 0;
};

void search_cluster(const Simulator& simulator, const SearchLimits& limits, Exploration& result) {
  StateSet seen;
  std::vector<Frame> frames(1);  // never shrinks: frames beyond `depth` keep their memory for later
  std::vector<Transition> path;
  frames[0].state = simulator.initial();
  simulator.enabled(frames[0].state, frames[0].choices);
  seen.insert(frames[0].state);
  size_t depth = 0;
  const auto stop = [&](Failure failure) {
    failure.trace = trace_text(simulator, path);
    result.failure = std::move(failure);
  };
  if (frames[0].choices.empty()) {
    ++result.schedules;
    if (auto failure = simulator.check_end(frames[0].state)) return stop(*failure);
  }
  for (;;) {
    Frame& top = frames[depth];
    if (top.next == top.choices.size()) {
      if (depth == 0) break;
      --depth;
      path.pop_back();
      continue;
    }
    if (depth + 1 == frames.size()) frames.emplace_back();
    Frame& from = frames[depth];
    Frame& to = frames[depth + 1];
    const Transition choice = from.choices[from.next++];
    to.state = from.state;
    path.push_back(choice);
    ++result.transitions;
    if (auto failure = simulator.apply(to.state, choice)) {
      failure->waiting = simulator.describe_waiting(from.state);
      stop(*failure);
      break;
    }
    if (!seen.insert(to.state)) {
      path.pop_back();
      continue;
    }
    simulator.enabled(to.state, to.choices);
    to.next = 0;
    ++depth;
    result.depth = std::max(result.depth, static_cast<i64>(depth));
    if (to.choices.empty()) {
      ++result.schedules;
      if (auto failure = simulator.check_end(to.state)) {
        stop(*failure);
        break;
      }
    }
    if (seen.size() >= limits.max_states) {
      result.complete = false;
      break;
    }
  }
  result.states += seen.size();
}

std::optional<Failure> run_schedule(const Simulator& simulator, u64 seed, StateSet* seen,
                                    Exploration& result) {
  Picker picker(seed, simulator.transitions(), simulator.total_steps());
  State state = simulator.initial(), before;
  std::vector<Transition> enabled, path;
  std::optional<Failure> failure;
  for (simulator.enabled(state, enabled); !enabled.empty(); simulator.enabled(state, enabled)) {
    path.push_back(picker.pick(enabled));
    before = state;
    failure = simulator.apply(state, path.back());
    if (failure) {
      failure->waiting = simulator.describe_waiting(before);
      break;
    }
    if (seen != nullptr) seen->insert(state);
  }
  if (!failure) failure = simulator.check_end(state);
  if (failure) {
    failure->seed = seed;
    failure->trace = trace_text(simulator, path);
  }
  ++result.schedules;
  result.transitions += static_cast<i64>(path.size());
  result.depth = std::max(result.depth, static_cast<i64>(path.size()));
  return failure;
}

}  // namespace

Exploration explore_all(const Recording& recording, const SearchLimits& limits) {
  Exploration result;
  result.failure = recording.failure;
  for (const ClusterProgram& cluster : recording.clusters) {
    if (result.failure) break;
    search_cluster(Simulator(cluster), limits, result);
  }
  return result;
}

Exploration explore_random(const Recording& recording, const RandomSearch& search) {
  Exploration result;
  result.complete = false;
  result.failure = recording.failure;
  for (const ClusterProgram& cluster : recording.clusters) {
    const Simulator simulator(cluster);
    StateSet seen;
    for (i64 i = 0; i < search.schedules && !result.failure; ++i)
      result.failure = run_schedule(simulator, search.seed + static_cast<u64>(i),
                                    search.count_states ? &seen : nullptr, result);
    result.states += seen.size();
  }
  return result;
}

}  // namespace sluice::twin
