// SPDX-License-Identifier: Apache-2.0
// One pass over each role's steps. See local_rules.h.
#include <sluice/twin/local_rules.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace sluice::twin {
namespace {

using KTileKey = std::tuple<int, int, int, int>;  // m_offset, n_offset, batch, k_tile
KTileKey key_of(const Step& s) {
  return {s.tile.m_offset, s.tile.n_offset, s.tile.batch, s.k_tile};
}
using Passes = std::map<KTileKey, int>;  // k-tile -> the pass over the ring that a CTA loads it in

/// Of the role that loads, or of the one that brings block scales.
Passes annotate_loads(const Scenario& scenario, StepList& steps) {
  Passes passes;
  std::vector<int> loads_into(scenario.config.stages, 0), published_into(scenario.config.stages, 0);
  int sequence = 0;
  for (Step& step : steps) {
    if (step.kind == StepKind::load_a || step.kind == StepKind::write_scales) {
      ++sequence;
      ++loads_into[step.stage];
    }
    if (step.kind == StepKind::arrive_full) step.pass = published_into[step.stage]++;
    if (step.kind != StepKind::load_a && step.kind != StepKind::load_b && step.kind != StepKind::write_scales)
      continue;
    step.sequence = sequence;
    step.pass = loads_into[step.stage] - 1;
    passes[key_of(step)] = step.pass;
  }
  return passes;
}

/// Follows the sums of one math role from begin_tile to the stores.
class SumRules {
 public:
  SumRules(const Scenario& scenario, const std::string& name, StepList& steps)
      : scenario_(scenario), name_(name), steps_(steps) {}

  std::optional<Failure> run() {
    for (size_t i = 0; i < steps_.size(); ++i)
      if (auto failure = see(i)) return failure;
    if (in_flight_) return fail(FailureKind::accumulator_in_flight, "leaves with products in flight");
    return std::nullopt;
  }

 private:
  std::optional<Failure> see(size_t i) {
    Step& step = steps_[i];
    switch (step.kind) {
      case StepKind::begin_tile:
        of_tile_.clear();
        sums_.assign(units(scenario_.config), 0);
        partial_ = scales_read_ = 0;
        break;
      case StepKind::read_scales:
        step.k_tile = scales_read_++;
        of_tile_.push_back(i);
        break;
      case StepKind::issue_mma: return see_product(i);
      case StepKind::retire_all: in_flight_ = false; break;
      case StepKind::promote: return see_promotion(step);
      case StepKind::write_chunk:
      case StepKind::store_direct: return see_store(step);
      default: break;
    }
    return std::nullopt;
  }

  std::optional<Failure> see_product(size_t i) {
    Step& step = steps_[i];
    if (step.fresh != (partial_ == 0))
      return fail(FailureKind::accumulator_wrong,
                  fmt::format("{} while {} k-tiles are in the sums: {}",
                              step.fresh ? "starts from zero" : "adds", partial_, to_string(step)));
    step.k_tile = sums_[step.unit] + partial_;
    of_tile_.push_back(i);
    ++partial_;
    partial_unit_ = step.unit;
    in_flight_ = true;
    return std::nullopt;
  }

  std::optional<Failure> see_promotion(const Step& step) {
    if (in_flight_) return fail(FailureKind::accumulator_in_flight, "promotes before wait_mma");
    if (step.unit != partial_unit_ || partial_ != 1)
      return fail(FailureKind::accumulator_wrong,
                  fmt::format("{} k-tiles of unit {} are in the partial sums: {}", partial_, partial_unit_,
                              to_string(step)));
    const int k_tile = sums_[step.unit];
    if (is_block_scaled(scenario_.config.epilogue) && scales_read_ - 1 != k_tile)
      return fail(
          FailureKind::accumulator_wrong,
          fmt::format("has the scales of k-tile {} for the products of {}", scales_read_ - 1, k_tile));
    ++sums_[step.unit];
    partial_ = 0;
    return std::nullopt;
  }

  std::optional<Failure> see_store(const Step& step) {
    if (in_flight_) return fail(FailureKind::accumulator_in_flight, "before wait_mma: " + to_string(step));
    const bool promotes = scenario_.config.promotes;
    const int complete = promotes ? *std::min_element(sums_.begin(), sums_.end()) : partial_;
    const int left = promotes ? partial_ : 0;
    if (complete != scenario_.grid().k_tiles || left != 0)
      return fail(FailureKind::accumulator_wrong,
                  fmt::format("{} of {} k-tiles are in the sums and {} wait for promotion: {}", complete,
                              scenario_.grid().k_tiles, left, to_string(step)));
    for (size_t i : of_tile_) steps_[i].tile = step.tile;
    return std::nullopt;
  }

  Failure fail(FailureKind kind, const std::string& what) const { return {kind, name_ + " " + what}; }

  const Scenario& scenario_;
  const std::string& name_;
  StepList& steps_;
  std::vector<size_t> of_tile_;  // the steps that read stages for it
  std::vector<int> sums_{0};     // k-tiles in the promoted sums of each unit
  int partial_ = 0;              // k-tiles in the tensor core's sums
  int partial_unit_ = 0;
  int scales_read_ = 0;  // k-tiles of this tile whose scales were read
  bool in_flight_ = false;
};

/// Which phase each signal of a math role is for: the pass in which its CTA loaded what was last read there.
std::optional<Failure> annotate_signals(const Scenario& scenario, const std::string& name,
                                        const Passes& passes, StepList& steps) {
  std::vector<int> read_in(scenario.config.stages, 0);
  int turns = 0;
  for (Step& step : steps) {
    if (step.kind == StepKind::issue_mma) {
      const auto found = passes.find(key_of(step));
      if (found == passes.end())
        return Failure{FailureKind::wrong_bytes,
                       fmt::format("{}: its CTA never loads that k-tile: {}", name, to_string(step))};
      read_in[step.stage] = step.pass = found->second;
    } else if (step.kind == StepKind::arrive_empty) {
      step.pass = read_in[step.stage];
    } else if (step.kind == StepKind::pass_turn) {
      step.pass = turns++;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string agent_name(const Scenario& scenario, int index) {
  const Agent agent = agent_at(scenario, index);
  if (agent.role == Role::load) return fmt::format("cta {} load", agent.cta);
  if (agent.role == Role::scales) return fmt::format("cta {} scales", agent.cta);
  std::string name = fmt::format("cta {} math {}", agent.cta, agent.group);
  if (scenario.warps_per_group > 1) name += fmt::format(" warp {}", agent.warp);
  return name;
}

std::optional<Failure> annotate(ClusterProgram& program) {
  const Scenario& scenario = program.scenario;
  Passes passes;
  for (int i = 0; i < scenario.agents(); ++i) {
    StepList& steps = program.agents[i];
    const std::string name = agent_name(scenario, i);
    const Role role = agent_at(scenario, i).role;
    if (role == Role::load) passes = annotate_loads(scenario, steps);
    if (role == Role::scales) (void)annotate_loads(scenario, steps);
    if (role != Role::math) continue;
    if (auto failure = SumRules(scenario, name, steps).run()) return failure;
    if (auto failure = annotate_signals(scenario, name, passes, steps)) return failure;
  }
  return std::nullopt;
}

std::optional<Failure> check_coverage(std::span<const ClusterProgram> clusters) {
  if (clusters.empty()) return std::nullopt;
  const Scenario& scenario = clusters.front().scenario;
  const KernelConfig& config = scenario.config;
  const bool direct = config.store == StorePath::direct;
  const int columns = direct ? config.tile.n : store_columns(config);
  using Chunk = std::tuple<int, int, int>;  // row, column, batch
  std::map<Chunk, int> stored;
  for (const ClusterProgram& cluster : clusters)
    for (int i = 0; i < scenario.agents(); ++i) {
      const Agent agent = agent_at(scenario, i);
      const int group_row = config.schedule == Schedule::cooperative ? agent.group * group_rows(config) : 0;
      for (const Step& step : cluster.agents[i]) {
        const int row = step.tile.m_offset + group_row;
        if (step.kind == StepKind::issue_store)
          ++stored[{row + step.wave * kWaveRows, step.tile.n_offset + step.column, step.tile.batch}];
        else if (step.kind == StepKind::store_direct && agent.warp == 0)
          for (int wave = 0; wave < waves(config); ++wave)
            ++stored[{row + wave * kWaveRows, step.tile.n_offset, step.tile.batch}];
      }
    }

  const TileGrid grid = scenario.grid();
  const int all_rows = grid.rows * config.cluster.m * config.tile.m;
  const int all_columns = grid.columns * config.cluster.n * config.tile.n;
  for (int batch = 0; batch < grid.batch; ++batch)
    for (int row = 0; row < all_rows; row += kWaveRows)
      for (int column = 0; column < all_columns; column += columns) {
        const auto found = stored.find({row, column, batch});
        const int times = found == stored.end() ? 0 : found->second;
        if (times != 1)
          return Failure{times == 0 ? FailureKind::tile_missing : FailureKind::tile_twice,
                         fmt::format("rows from {}, columns from {} of matrix {} are stored {} times", row,
                                     column, batch, times)};
        stored.erase(found);
      }
  if (!stored.empty()) {
    const auto& [row, column, batch] = stored.begin()->first;
    return Failure{
        FailureKind::tile_twice,
        fmt::format("rows from {}, columns from {} of matrix {} are no tile of D", row, column, batch)};
  }
  return std::nullopt;
}

}  // namespace sluice::twin
