// SPDX-License-Identifier: Apache-2.0
// Depth-first search with a set of seen states, and random interleavings. Works on any model with Simulator's
// functions initial, enabled, apply, check_end and its texts. Used by explore.cc and combine.cc.
#pragma once

#include <algorithm>

#include <sluice/twin/explore.h>
#include <sluice/twin/picker.h>
#include <sluice/twin/state_set.h>

namespace sluice::twin {

inline constexpr size_t kTraceSteps = 60;  // the last steps that a failure shows

/// Returns the last steps of an interleaving as text. Runs it again from the start, because states are not
/// kept.
template <class Model>
std::string trace_text(const Model& model, const std::vector<Transition>& path) {
  State state = model.initial();
  std::string text;
  for (size_t i = 0; i < path.size(); ++i) {
    if (i + kTraceSteps >= path.size()) text += "  " + model.describe_transition(state, path[i]) + '\n';
    if (model.apply(state, path[i])) break;
  }
  return text;
}

/// One branching point of the search.
struct Frame {
  State state;
  std::vector<Transition> choices;
  size_t next = 0;
};

/// Visits every reachable state, depth first.
template <class Model>
void search_all(const Model& model, const SearchLimits& limits, Exploration& result) {
  StateSet seen;
  std::vector<Frame> frames(1);  // never shrinks, so that frames beyond `depth` keep their memory for reuse
  std::vector<Transition> path;
  frames[0].state = model.initial();
  model.enabled(frames[0].state, frames[0].choices);
  seen.insert(frames[0].state);
  size_t depth = 0;
  const auto stop = [&](Failure failure) {
    failure.trace = trace_text(model, path);
    result.failure = std::move(failure);
  };
  if (frames[0].choices.empty()) {
    ++result.schedules;
    if (auto failure = model.check_end(frames[0].state)) return stop(*failure);
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
    if (auto failure = model.apply(to.state, choice)) {
      failure->waiting = model.describe_waiting(from.state);
      stop(*failure);
      break;
    }
    if (!seen.insert(to.state)) {
      path.pop_back();
      continue;
    }
    model.enabled(to.state, to.choices);
    to.next = 0;
    ++depth;
    result.depth = std::max(result.depth, static_cast<i64>(depth));
    if (to.choices.empty()) {
      ++result.schedules;
      if (auto failure = model.check_end(to.state)) {
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

/// Runs one random interleaving.
template <class Model>
std::optional<Failure> run_schedule(const Model& model, u64 seed, StateSet* seen, Exploration& result) {
  Picker picker(seed, model.transitions(), model.total_steps());
  State state = model.initial(), before;
  std::vector<Transition> enabled, path;
  std::optional<Failure> failure;
  for (model.enabled(state, enabled); !enabled.empty(); model.enabled(state, enabled)) {
    path.push_back(picker.pick(enabled));
    before = state;
    failure = model.apply(state, path.back());
    if (failure) {
      failure->waiting = model.describe_waiting(before);
      break;
    }
    if (seen != nullptr) seen->insert(state);
  }
  if (!failure) failure = model.check_end(state);
  if (failure) {
    failure->seed = seed;
    failure->trace = trace_text(model, path);
  }
  ++result.schedules;
  result.transitions += static_cast<i64>(path.size());
  result.depth = std::max(result.depth, static_cast<i64>(path.size()));
  return failure;
}

/// Runs `search.schedules` random interleavings; stops at the first failure.
template <class Model>
void search_random(const Model& model, const RandomSearch& search, Exploration& result) {
  StateSet seen;
  for (i64 i = 0; i < search.schedules && !result.failure; ++i)
    result.failure =
        run_schedule(model, search.seed + static_cast<u64>(i), search.count_states ? &seen : nullptr, result);
  result.states += seen.size();
  result.complete = false;
}

}  // namespace sluice::twin
