// SPDX-License-Identifier: Apache-2.0
// The math groups that share slots or counters, as a model for search.h. A warp *knows* a write of partial
// sums if the write happens before (in the memory model's sense). It knows its own writes immediately, and
// those of its group after the group's barrier. It knows peers' writes through the counter: the elected
// thread's atomic releases all writes that it knows, and acquires all writes that others released there.
// Reading a slot without knowing its write is a failure, whenever the write really happened: it is a data
// race. Used by combine.cc.
#pragma once

#include <map>
#include <vector>

#include <sluice/twin/failure.h>
#include <sluice/twin/scenario.h>
#include <sluice/twin/simulator.h>

namespace sluice::twin {

/// The reduction steps of one warp, with its group's barriers renumbered.
struct CombineActor {
  int cluster = 0;
  Agent agent;
  std::string name;
  StepList steps;
};

class CombineModel {
 public:
  /// `actors` are all actors that use the slots and counters of their groups.
  CombineModel(const Scenario& scenario, std::vector<CombineActor> actors, int launches);

  State initial() const;
  void enabled(const State& state, std::vector<Transition>& out) const;
  std::optional<Failure> apply(State& state, Transition transition) const;
  std::optional<Failure> check_end(const State& state) const;
  int transitions() const {
    return static_cast<int>(actors_.size()) + 1;
  }  // the last transition begins the next launch
  i64 total_steps() const;
  std::string describe_transition(const State& state, Transition transition) const;
  std::string describe_waiting(const State& state) const;

 private:
  const Step* next_step(const State& s, int actor) const;
  bool can_step(const State& s, int actor, const Step& step) const;
  std::optional<Failure> do_step(State& s, int actor, const Step& step) const;
  void settle(State& s, int actor) const;
  std::optional<Failure> do_sum(const State& s, int actor, const Step& step) const;
  std::optional<Failure> end_launch(const State& s) const;
  bool all_done(const State& s) const;
  void clear_launch(State& s) const;
  Failure fail(FailureKind kind, int actor, const Step& step, const std::string& why) const;

  using Write = std::pair<int, int>;  // a write to a slot: (slot, warp that writes)
  Write write_of(const Agent& agent, const Step& step, int rank) const {
    return {part_index(scenario_, agent, step.tile.sharing.slot + rank), agent.warp};
  }
  int counter_of(const Agent& agent, const Step& step) const {
    return counter_number_.at(part_index(scenario_, agent, step.tile.sharing.counter));
  }

  // Accessors of a state's words. A set of writes has `set_words_` words.
  u32& pc(State& s, int actor) const { return s[1 + actor]; }
  u32 pc(const State& s, int actor) const { return s[1 + actor]; }
  int known_by_actor(int actor) const { return first_set_ + actor * set_words_; }
  int known_at_counter(int counter) const { return first_counter_set_ + counter * set_words_; }
  int known_at_meeting(int group, int meeting) const {
    return first_pool_ + (2 * group + meeting % 2) * set_words_;
  }
  void merge(State& s, int into, int from) const {
    for (int i = 0; i < set_words_; ++i) s[into + i] |= s[from + i];
  }

  const Scenario& scenario_;
  std::vector<CombineActor> actors_;
  std::vector<int> group_of_;  // [actor]
  std::map<Write, int> write_number_;
  std::map<int, int> counter_number_;  // workspace counters in use
  int launches_;
  int groups_ = 0, counters_ = 0, set_words_ = 0;
  int value_word_ = 0, winners_word_ = 0, sync_word_ = 0, won_word_ = 0;
  int first_set_ = 0, first_counter_set_ = 0, first_pool_ = 0, words_ = 0;
};

}  // namespace sluice::twin
