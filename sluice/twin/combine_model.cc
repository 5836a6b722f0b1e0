// SPDX-License-Identifier: Apache-2.0
// See combine_model.h.
#include <sluice/twin/combine_model.h>

#include <fmt/format.h>

#include <algorithm>

namespace sluice::twin {

CombineModel::CombineModel(const Scenario& scenario, std::vector<CombineActor> actors, int launches)
    : scenario_(scenario), actors_(std::move(actors)), launches_(launches) {
  std::map<std::tuple<int, int, int>, int> group_number;  // cluster, cta, group
  for (const CombineActor& actor : actors_) {
    const auto group = std::tuple(actor.cluster, actor.agent.cta, actor.agent.group);
    group_of_.push_back(group_number.insert({group, static_cast<int>(group_number.size())}).first->second);
    for (const Step& step : actor.steps) {
      if (step.kind == StepKind::write_partial)
        write_number_.insert(
            {write_of(actor.agent, step, step.tile.sharing.rank), static_cast<int>(write_number_.size())});
      if (step.kind == StepKind::elect || step.kind == StepKind::reset_counter)
        counter_number_.insert({part_index(scenario_, actor.agent, step.tile.sharing.counter),
                                static_cast<int>(counter_number_.size())});
    }
  }
  groups_ = static_cast<int>(group_number.size());
  counters_ = static_cast<int>(counter_number_.size());
  set_words_ = ceil_div(static_cast<int>(write_number_.size()), 32);
  value_word_ = 1 + static_cast<int>(actors_.size());
  winners_word_ = value_word_ + counters_;
  sync_word_ = winners_word_ + counters_;
  won_word_ = sync_word_ + groups_;
  first_set_ = won_word_ + groups_;
  first_counter_set_ = first_set_ + static_cast<int>(actors_.size()) * set_words_;
  first_pool_ = first_counter_set_ + counters_ * set_words_;
  words_ = first_pool_ + 2 * groups_ * set_words_;
}

State CombineModel::initial() const {
  State s(words_, 0);
  clear_launch(s);
  return s;
}

/// Clears the state for the next launch. Only the values of counters persist.
void CombineModel::clear_launch(State& s) const {
  const u32 launch = s[0];
  const std::vector<u32> values(s.begin() + value_word_, s.begin() + winners_word_);
  std::fill(s.begin(), s.end(), 0);
  s[0] = launch;
  std::copy(values.begin(), values.end(), s.begin() + value_word_);
  for (int actor = 0; actor < static_cast<int>(actors_.size()); ++actor) settle(s, actor);
}

const Step* CombineModel::next_step(const State& s, int actor) const {
  const StepList& steps = actors_[actor].steps;
  return pc(s, actor) < steps.size() ? &steps[pc(s, actor)] : nullptr;
}

bool CombineModel::can_step(const State& s, int actor, const Step& step) const {
  return step.kind != StepKind::sync_wait ||
         s[sync_word_ + group_of_[actor]] >= static_cast<u32>(step.count * scenario_.warps_per_group);
}

bool CombineModel::all_done(const State& s) const {
  for (int actor = 0; actor < static_cast<int>(actors_.size()); ++actor)
    if (next_step(s, actor) != nullptr) return false;
  return true;
}

void CombineModel::enabled(const State& s, std::vector<Transition>& out) const {
  out.clear();
  for (int actor = 0; actor < static_cast<int>(actors_.size()); ++actor) {
    const Step* step = next_step(s, actor);
    if (step != nullptr && can_step(s, actor, *step)) out.push_back(actor);
  }
  if (out.empty() && all_done(s) && s[0] + 1 < static_cast<u32>(launches_)) out.push_back(transitions() - 1);
}

std::optional<Failure> CombineModel::apply(State& s, Transition t) const {
  if (t == transitions() - 1) {
    if (auto failure = end_launch(s)) return failure;
    ++s[0];
    clear_launch(s);
    return std::nullopt;
  }
  const Step& step = *next_step(s, t);
  ++pc(s, t);
  if (auto failure = do_step(s, t, step)) return failure;
  settle(s, t);
  return std::nullopt;
}

/// Advances over skipped steps and over writes: no other actor can observe a write before this actor's next
/// step.
void CombineModel::settle(State& s, int actor) const {
  const int group = group_of_[actor];
  for (const Step* step = next_step(s, actor); step != nullptr; step = next_step(s, actor)) {
    if (step->guarded && s[won_word_ + group] == 0) {
      if (step->kind == StepKind::sync_arrive) ++s[sync_word_ + group];
    } else if (step->kind == StepKind::write_partial) {
      (void)do_step(s, actor, *step);  // cannot fail
    } else {
      return;
    }
    ++pc(s, actor);
  }
}

std::optional<Failure> CombineModel::do_step(State& s, int actor, const Step& step) const {
  const Agent& agent = actors_[actor].agent;
  const int group = group_of_[actor], known = known_by_actor(actor);
  u32& syncs = s[sync_word_ + group];
  switch (step.kind) {
    case StepKind::write_partial: {
      const int number = write_number_.at(write_of(agent, step, step.tile.sharing.rank));
      s[known + number / 32] |= 1u << number % 32;
      return std::nullopt;
    }
    case StepKind::sync_arrive: {
      const int meeting = static_cast<int>(syncs) / scenario_.warps_per_group + 1;
      const int pool = known_at_meeting(group, meeting);
      if (syncs % scenario_.warps_per_group == 0) std::fill_n(s.begin() + pool, set_words_, 0);
      merge(s, pool, known);
      ++syncs;
      return std::nullopt;
    }
    case StepKind::sync_wait: merge(s, known, known_at_meeting(group, step.count)); return std::nullopt;
    case StepKind::elect: {
      const int counter = counter_of(agent, step);
      u32& value = s[value_word_ + counter];
      const u32 bound = static_cast<u32>(step.count), old = value;
      value = old >= bound ? 0 : old + 1;  // atom.inc
      s[won_word_ + group] = old == bound ? 1 : 0;
      s[winners_word_ + counter] += old == bound ? 1 : 0;
      merge(s, known_at_counter(counter), known);
      merge(s, known, known_at_counter(counter));
      return std::nullopt;
    }
    case StepKind::reset_counter: s[value_word_ + counter_of(agent, step)] = 0; return std::nullopt;
    case StepKind::sum_partials: return do_sum(s, actor, step);
    default: return std::nullopt;
  }
}

std::optional<Failure> CombineModel::do_sum(const State& s, int actor, const Step& step) const {
  for (int rank = 0; rank < step.tile.sharing.peers; ++rank) {
    const auto write = write_number_.find(write_of(actors_[actor].agent, step, rank));
    if (write == write_number_.end())
      return fail(FailureKind::partial_unready, actor, step, fmt::format("nobody writes slot {}", rank));
    if ((s[known_by_actor(actor) + write->second / 32] >> write->second % 32 & 1) == 0)
      return fail(FailureKind::partial_unready, actor, step,
                  fmt::format("the sums of peer {} are not known to be written", rank));
  }
  return std::nullopt;
}

std::optional<Failure> CombineModel::end_launch(const State& s) const {
  for (const auto& [index, counter] : counter_number_)
    if (s[winners_word_ + counter] != 1)
      return Failure{FailureKind::wrong_election,
                     fmt::format("launch {}: {} peers were the last at counter {}, which is {} now", s[0],
                                 s[winners_word_ + counter], index, s[value_word_ + counter])};
  for (const auto& [index, counter] : counter_number_)
    if (s[value_word_ + counter] != 0)
      return Failure{FailureKind::counter_left,
                     fmt::format("counter {} is {} after launch {}", index, s[value_word_ + counter], s[0])};
  return std::nullopt;
}

std::optional<Failure> CombineModel::check_end(const State& s) const {
  for (int actor = 0; actor < static_cast<int>(actors_.size()); ++actor)
    if (next_step(s, actor) != nullptr)
      return Failure{.kind = FailureKind::deadlock,
                     .message = "nobody can move, and " + actors_[actor].name + " is not done",
                     .waiting = describe_waiting(s)};
  return end_launch(s);
}

i64 CombineModel::total_steps() const {
  i64 total = 0;
  for (const CombineActor& actor : actors_) total += static_cast<i64>(actor.steps.size());
  return total * launches_;
}

Failure CombineModel::fail(FailureKind kind, int actor, const Step& step, const std::string& why) const {
  return {kind, fmt::format("{}: {}: {}", actors_[actor].name, to_string(step), why)};
}

std::string CombineModel::describe_transition(const State& s, Transition t) const {
  if (t == transitions() - 1) return fmt::format("launch {} ends, the next begins", s[0]);
  const Step* step = next_step(s, t);
  return actors_[t].name + ": " + (step != nullptr ? to_string(*step) : "done");
}

std::string CombineModel::describe_waiting(const State& s) const {
  std::string text;
  for (int actor = 0; actor < static_cast<int>(actors_.size()); ++actor)
    if (next_step(s, actor) != nullptr) text += "  " + describe_transition(s, actor) + '\n';
  return text;
}

}  // namespace sluice::twin
