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
using Passes = std::map<KTileKey, int>;  // k-tile -> the pass over the ring in which a CTA loads it

/// Numbers the loads of the load role, or of the copying role.
Passes annotate_loads(StepList& steps) {
  Passes passes;
  // Kinds are counted separately: B may be loaded into a stage long before A.
  std::map<std::pair<StepKind, int>, int> done;  // kind, stage -> so far
  std::map<StepKind, int> sequence;
  for (Step& step : steps) {
    if (step.kind == StepKind::arrive_full) step.pass = done[{step.kind, step.stage}]++;
    if (step.kind != StepKind::load_a && step.kind != StepKind::load_b && step.kind != StepKind::write_scales)
      continue;
    step.sequence = ++sequence[step.kind];
    step.pass = done[{step.kind, step.stage}]++;
    passes[key_of(step)] = step.pass;
  }
  return passes;
}

/// Returns the whole tile that a stored tile is part of: in a cluster along k each CTA stores only a part.
Tile whole_tile(const KernelConfig& config, Tile tile) {
  tile.n_offset -= tile.n_offset % config.tile.n;
  return tile;
}

/// Tracks the accumulators of one math role from begin_tile to the stores, and checks the rules about them.
class SumRules {
 public:
  SumRules(const Scenario& scenario, const Agent& agent, const std::string& name, StepList& steps)
      : scenario_(scenario),
        name_(name),
        steps_(steps),
        group_row_(scenario.config.schedule == Schedule::cooperative
                       ? agent.group * group_rows(scenario.config)
                       : 0) {}

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
        partial_ = scales_read_ = received_ = 0;
        partials_of_ = 1;
        written_ = summed_ = false;
        break;
      case StepKind::read_columns:
        step.k_tile = scales_read_ - 1;
        of_tile_.push_back(i);
        break;
      case StepKind::read_scales:
        step.k_tile = scales_read_++;
        of_tile_.push_back(i);
        break;
      case StepKind::issue_mma: return see_product(i);
      case StepKind::clear_rest: cleared_ = Cleared::unpublished; break;
      case StepKind::publish:
        if (cleared_ == Cleared::unpublished)
          cleared_ = scenario_.warps_per_group == 1 ? Cleared::no : Cleared::by_this_warp;
        break;
      case StepKind::sync_wait:
        if (cleared_ == Cleared::by_this_warp) cleared_ = Cleared::no;
        break;
      case StepKind::retire_all: in_flight_ = false; break;
      case StepKind::promote: return see_promotion(step);
      case StepKind::send_sums: return see_complete(step);
      case StepKind::receive_sums: ++received_; break;
      case StepKind::write_partial:
        written_ = true;
        partials_of_ = step.tile.sharing.peers;
        return see_exchanged(step);
      case StepKind::sum_partials: return see_sum_of_partials(step);
      case StepKind::issue_store: return see_box(step);
      case StepKind::write_chunk:
      case StepKind::store_direct: return see_store(step);
      default: break;
    }
    return std::nullopt;
  }

  std::optional<Failure> see_product(size_t i) {
    Step& step = steps_[i];
    if (cleared_ != Cleared::no)
      return fail(FailureKind::store_unpublished,
                  "reads rows that were zeroed and not published, or not by all warps: " + to_string(step));
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

  /// Checks that the sums, which leave the role's registers here, are the complete sums of step.tile.
  std::optional<Failure> see_complete(const Step& step) {
    if (in_flight_) return fail(FailureKind::accumulator_in_flight, "before wait_mma: " + to_string(step));
    const bool promotes = scenario_.config.promotes;
    const int complete = promotes ? *std::min_element(sums_.begin(), sums_.end()) : partial_;
    const int left = promotes ? partial_ : 0;
    if (complete != step.tile.k_tiles || left != 0)
      return fail(FailureKind::accumulator_wrong,
                  fmt::format("{} of {} k-tiles are in the sums and {} wait for promotion: {}", complete,
                              step.tile.k_tiles, left, to_string(step)));
    for (size_t i : of_tile_) {
      steps_[i].k_tile += step.tile.first_k_tile;
      steps_[i].tile = whole_tile(scenario_.config, step.tile);
    }
    of_tile_.clear();
    return std::nullopt;
  }

  std::optional<Failure> see_exchanged(const Step& step) {
    const bool exchanges =
        scenario_.config.cluster.k > 1 && scenario_.row_end_of(step.tile) > step.tile.m_offset + group_row_;
    const int passes = exchanges ? exchange_passes(scenario_.config) : 0;
    if (received_ != passes)
      return fail(FailureKind::accumulator_wrong, fmt::format("after {} of {} passes of the exchange: {}",
                                                              received_, passes, to_string(step)));
    return see_complete(step);
  }

  std::optional<Failure> see_sum_of_partials(const Step& step) {
    if (!written_ || step.tile.sharing.peers != partials_of_ || step.tile.sharing.rank >= partials_of_)
      return fail(FailureKind::accumulator_wrong,
                  fmt::format("adds up {} of {} slots, its own {}: {}", step.tile.sharing.peers, partials_of_,
                              written_ ? "written" : "not written", to_string(step)));
    summed_ = true;
    return std::nullopt;
  }

  std::optional<Failure> see_store(const Step& step) {
    const bool added_in_parts = scenario_.config.combine == Combine::add;
    if (step.tile.sharing.peers > 1 && !summed_ && !added_in_parts)
      return fail(FailureKind::accumulator_wrong, "stores its own part of the sums: " + to_string(step));
    return see_exchanged(step);
  }

  /// A box that TMA stores is whole: it must not reach the next group.
  std::optional<Failure> see_box(const Step& step) const {
    const int end = step.tile.m_offset + group_row_ + (step.wave + 1) * kWaveRows;
    if (!has_groups(scenario_.config) || end <= step.tile.row_end) return std::nullopt;
    return fail(FailureKind::tile_twice, fmt::format("writes {} rows behind its group's: {}",
                                                     end - step.tile.row_end, to_string(step)));
  }

  Failure fail(FailureKind kind, const std::string& what) const { return {kind, name_ + " " + what}; }

  const Scenario& scenario_;
  const std::string& name_;
  StepList& steps_;
  int group_row_;                // first row of the group in its tile
  std::vector<size_t> of_tile_;  // the steps that read stages for this tile
  std::vector<int> sums_{0};     // k-tiles in the promoted sums of each pass
  int partial_ = 0;              // k-tiles in the tensor core's sums
  int partial_unit_ = 0;
  int scales_read_ = 0;  // k-tiles of this tile whose scales were read
  bool in_flight_ = false;
  int received_ = 0;     // passes of the exchange
  int partials_of_ = 1;  // peers that share the tile
  bool written_ = false, summed_ = false;
  /// Rows of a stage that were zeroed: published by a fence, then by the group's barrier.
  enum class Cleared : u8 { no, unpublished, by_this_warp } cleared_ = Cleared::no;
};

/// Finds the barrier phase that each signal of a math role belongs to. It is the ring pass in which the
/// role's CTA loaded the data that was last read from that stage.
std::optional<Failure> annotate_signals(const Scenario& scenario, const std::string& name,
                                        const Passes& passes, StepList& steps) {
  std::vector<int> read_in(scenario.config.stages, 0);
  int turns = 0, staged = 0;
  std::vector<int> sent(scenario.ctas(), 0), given_back(scenario.ctas(), 0);
  for (Step& step : steps) {
    if (step.kind == StepKind::issue_mma || step.kind == StepKind::pass_stage) {
      const auto found = passes.find(key_of(step));
      if (found == passes.end())
        return Failure{FailureKind::wrong_bytes,
                       fmt::format("{}: its CTA never loads that k-tile: {}", name, to_string(step))};
      read_in[step.stage] = step.pass = found->second;
    } else if (step.kind == StepKind::arrive_empty) {
      step.pass = read_in[step.stage];
    } else if (step.kind == StepKind::stage_vectors) {
      step.sequence = ++staged;
    } else if (step.kind == StepKind::pass_turn) {
      step.pass = turns++;
    } else if (step.kind == StepKind::send_sums) {
      step.pass = sent[step.target]++;
    } else if (step.kind == StepKind::arrive_sums_empty) {
      step.pass = given_back[step.target]++;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string agent_name(const Scenario& scenario, int index) {
  const Agent agent = agent_at(scenario, index);
  if (agent.role == Role::load) return fmt::format("cta {} load", agent.cta);
  if (agent.role == Role::copies)
    return fmt::format("cta {} {}", agent.cta, loads_strided(scenario.config) ? "strided" : "scales");
  std::string name = fmt::format("cta {} math {}", agent.cta, agent.group);
  if (scenario.warps_per_group > 1) name += fmt::format(" warp {}", agent.warp);
  return name;
}

std::optional<Failure> annotate(ClusterProgram& program) {
  const Scenario& scenario = program.scenario;
  if (auto failure = check_waits(program)) return failure;
  if (auto failure = check_conv_boxes(program)) return failure;
  Passes passes;
  for (int i = 0; i < scenario.agents(); ++i) {
    StepList& steps = program.agents[i];
    const std::string name = agent_name(scenario, i);
    const Role role = agent_at(scenario, i).role;
    if (role == Role::load) passes = annotate_loads(steps);
    if (role == Role::copies) passes.merge(annotate_loads(steps));
    if (role != Role::math) continue;
    if (auto failure = SumRules(scenario, agent_at(scenario, i), name, steps).run()) return failure;
    if (auto failure = annotate_signals(scenario, name, passes, steps)) return failure;
  }
  return std::nullopt;
}

}  // namespace sluice::twin
