// SPDX-License-Identifier: Apache-2.0
// Turns a recording into models: takes the split-K reduction steps of each role's list, and finds the groups
// that share slots or counters. See combine.h.
#include <sluice/twin/combine.h>

#include <fmt/format.h>

#include <numeric>

#include <sluice/twin/combine_model.h>
#include <sluice/twin/local_rules.h>
#include <sluice/twin/search.h>

namespace sluice::twin {
namespace {

bool combines(const Step& step) {
  return step.kind == StepKind::write_partial || step.kind == StepKind::elect ||
         step.kind == StepKind::sum_partials || step.kind == StepKind::reset_counter;
}

/// Returns the reduction steps of each tile, and the group's barriers between them.
StepList combining_steps(const StepList& steps) {
  StepList kept;
  int meetings = 0;
  const auto keep_tile = [&](size_t begin, size_t end) {
    while (begin < end && !combines(steps[begin])) ++begin;
    while (begin < end && !combines(steps[end - 1])) --end;
    for (size_t i = begin; i < end; ++i) {
      const Step& step = steps[i];
      if (!combines(step) && step.kind != StepKind::sync_arrive && step.kind != StepKind::sync_wait) continue;
      kept.push_back(step);
      if (step.kind == StepKind::sync_wait) kept.back().count = ++meetings;
    }
  };
  size_t tile = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != StepKind::begin_tile) continue;
    keep_tile(tile, i);
    tile = i;
  }
  keep_tile(tile, steps.size());
  return kept;
}

std::vector<CombineActor> combining_actors(const Recording& recording) {
  std::vector<CombineActor> actors;
  for (const ClusterProgram& cluster : recording.clusters)
    for (int i = 0; i < cluster.scenario.agents(); ++i) {
      const Agent agent = agent_at(cluster.scenario, i);
      if (agent.role != Role::math) continue;
      StepList steps = combining_steps(cluster.agents[i]);
      if (steps.empty()) continue;
      const std::string name = fmt::format("cluster {} {}", cluster.cluster, agent_name(cluster.scenario, i));
      actors.push_back({cluster.cluster, agent, name, std::move(steps)});
    }
  return actors;
}

/// Returns the connected sets of actors: actors are in one set if they share a group, a counter or a slot.
std::vector<std::vector<CombineActor>> independent_sets(const Scenario& scenario,
                                                        const std::vector<CombineActor>& actors) {
  std::vector<size_t> parent(actors.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto root = [&](size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  enum class Thing : u8 { group, counter, slot };
  std::map<std::tuple<Thing, int, int, int>, size_t> first_user;
  const auto use = [&](size_t actor, const std::tuple<Thing, int, int, int>& thing) {
    parent[root(actor)] = root(first_user.insert({thing, actor}).first->second);
  };
  for (size_t i = 0; i < actors.size(); ++i) {
    const CombineActor& actor = actors[i];
    use(i, {Thing::group, actor.cluster, actor.agent.cta, actor.agent.group});
    for (const Step& step : actor.steps) {
      if (!combines(step)) continue;
      const Sharing& sharing = step.tile.sharing;
      use(i, {Thing::counter, part_index(scenario, actor.agent, sharing.counter), 0, 0});
      for (int rank = 0; rank < sharing.peers; ++rank)
        use(i, {Thing::slot, part_index(scenario, actor.agent, sharing.slot + rank), 0, 0});
    }
  }
  std::map<size_t, std::vector<CombineActor>> sets;
  for (size_t i = 0; i < actors.size(); ++i) sets[root(i)].push_back(actors[i]);
  std::vector<std::vector<CombineActor>> result;
  for (auto& [_, set] : sets) result.push_back(std::move(set));
  return result;
}

}  // namespace

Exploration explore_combine(const Recording& recording, const CombineSearch& search) {
  Exploration result;
  result.failure = recording.failure;
  if (result.failure || recording.clusters.empty()) return result;
  const Scenario& scenario = recording.clusters.front().scenario;
  for (auto& set : independent_sets(scenario, combining_actors(recording))) {
    if (result.failure) break;
    const CombineModel model(scenario, std::move(set), search.launches);
    if (search.schedules == 0)
      search_all(model, {.max_states = search.max_states}, result);
    else
      search_random(model, {.seed = search.seed, .schedules = search.schedules}, result);
  }
  return result;
}

}  // namespace sluice::twin
