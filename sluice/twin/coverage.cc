// SPDX-License-Identifier: Apache-2.0
// Rules over all clusters: every element of D is stored once, every k-tile is multiplied once, and tiles do
// not share slots or counters. See local_rules.h.
#include <fmt/format.h>

#include <array>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include <sluice/twin/local_rules.h>
#include <sluice/device/pipeline.cuh>

namespace sluice::twin {
namespace {

/// Calls see(cluster program, agent, step) for the steps of all roles. Skips warps that repeat the steps of
/// warp 0.
template <class See>
void each_step(std::span<const ClusterProgram> clusters, const See& see) {
  const Scenario& scenario = clusters.front().scenario;
  for (const ClusterProgram& cluster : clusters)
    for (int i = 0; i < scenario.agents(); ++i) {
      const Agent agent = agent_at(scenario, i);
      if (agent.warp != 0) continue;
      for (const Step& step : cluster.agents[i]) see(cluster, agent, step);
    }
}

int group_row(const KernelConfig& config, const Agent& agent) {
  return config.schedule == Schedule::cooperative ? agent.group * group_rows(config) : 0;
}

/// How often a chunk of D is stored.
struct Stored {
  int always = 0;   // stores that happen unconditionally
  int by_last = 0;  // stores by a cluster that happen only if it is the last of its peers
  int peers = 1;
  std::set<int> parts;  // ranks of the peers that add their split-K slice to D (Combine::add)
  int added = 0;        // number of such additions

  bool once() const {
    if (added > 0) return always + by_last == 0 && added == peers && static_cast<int>(parts.size()) == peers;
    return by_last == 0 ? always == 1 : always == 0 && by_last == peers;
  }
  bool too_few() const { return always == 0 && by_last + added < peers; }
};
using Chunk = std::tuple<int, int, int>;  // row, column, batch

std::map<Chunk, Stored> stored_chunks(std::span<const ClusterProgram> clusters) {
  const KernelConfig& config = clusters.front().scenario.config;
  std::map<Chunk, Stored> stored;
  each_step(clusters, [&](const ClusterProgram&, const Agent& agent, const Step& step) {
    const auto add = [&](int wave, int column) {
      Stored& chunk = stored[{step.tile.m_offset + group_row(config, agent) + wave * kWaveRows,
                              outputs_of(config.epilogue, step.tile.n_offset) + column, step.tile.batch}];
      const bool is_part = config.combine == Combine::add && step.tile.sharing.peers > 1;
      ++(is_part ? chunk.added : step.guarded ? chunk.by_last : chunk.always);
      if (is_part) chunk.parts.insert(step.tile.sharing.rank);
      if (is_part || step.guarded) chunk.peers = step.tile.sharing.peers;
    };
    const int columns = config.store == StorePath::direct ? own_outputs(config) : store_columns(config);
    // With Combine::separate, the second kernel stores this chunk once (sum_parts of numbers_combine.cc).
    const bool is_left = step.kind == StepKind::write_partial && config.combine == Combine::separate;
    if (is_left && step.tile.sharing.rank == 0)
      for (int wave = 0; wave < waves(config); ++wave)
        for (int column = 0; column < own_outputs(config); column += columns) add(wave, column);
    // A chunk whose rows are all behind the group's end is copied by nobody.
    const bool copied =
        step.kind == StepKind::copy_chunk &&
        step.tile.m_offset + group_row(config, agent) + step.wave * kWaveRows < step.tile.row_end;
    if (step.kind == StepKind::issue_store || copied) add(step.wave, step.column);
    if (step.kind == StepKind::store_direct)
      for (int wave = 0; wave < waves(config); ++wave)
        if (!has_groups(config) ||
            step.tile.m_offset + group_row(config, agent) + wave * kWaveRows < step.tile.row_end)
          add(wave, 0);
  });
  return stored;
}

/// Checks that either every store adds to D or none does.
std::optional<Failure> check_updates(std::span<const ClusterProgram> clusters) {
  std::optional<Failure> failure;
  const bool wanted = adds(clusters.front().scenario.config.epilogue);
  each_step(clusters, [&](const ClusterProgram&, const Agent&, const Step& step) {
    const bool stores = step.kind == StepKind::issue_store || step.kind == StepKind::store_direct;
    if (!failure && stores && step.adds != wanted)
      failure = Failure{FailureKind::wrong_update,
                        fmt::format("{} {} D", to_string(step), wanted ? "overwrites" : "adds to")};
  });
  return failure;
}

std::optional<Failure> check_stores(std::span<const ClusterProgram> clusters) {
  const Scenario& scenario = clusters.front().scenario;
  const KernelConfig& config = scenario.config;
  const int columns = config.store == StorePath::direct ? own_outputs(config) : store_columns(config);
  std::map<Chunk, Stored> stored = stored_chunks(clusters);
  const TileGrid grid = scenario.grid();
  const int all_rows = grid.rows * config.cluster.m * config.tile.m;
  const int all_columns = outputs_of(config.epilogue, grid.columns * config.cluster.n * config.tile.n);
  const auto rows_of = [&](int batch) {
    if (!has_groups(config)) return GroupRows{0, all_rows};
    return scenario.group(batch);
  };
  for (int batch = 0; batch < grid.batch; ++batch)
    for (int row = rows_of(batch).begin; row < rows_of(batch).end; row += kWaveRows)
      for (int column = 0; column < all_columns; column += columns) {
        const Stored found = stored[{row, column, batch}];
        if (!found.once())
          return Failure{found.too_few() ? FailureKind::tile_missing : FailureKind::tile_twice,
                         fmt::format("rows from {}, columns from {} of matrix {} are stored {} times, {} "
                                     "times by one who may be "
                                     "the last of {} peers, and {} times in parts by {} of them",
                                     row, column, batch, found.always, found.by_last, found.peers,
                                     found.added, found.parts.size())};
        stored.erase({row, column, batch});
      }
  if (!stored.empty()) {
    const auto& [row, column, batch] = stored.begin()->first;
    return Failure{
        FailureKind::tile_twice,
        fmt::format("rows from {}, columns from {} of matrix {} are no tile of D", row, column, batch)};
  }
  return std::nullopt;
}

/// Checks that each pixel of dx belongs to one row of one phase, and each element of a filter's gradient to
/// one column of the product. Together with check_stores() this shows that each element of D is stored once.
std::optional<Failure> check_conv_outputs(const Scenario& scenario) {
  const Conv& v = scenario.conv;
  std::vector<int> times;
  if (scenario.config.conv.phased) {
    const Phases phases = phases_of(v);
    times.resize(static_cast<size_t>(x_pixels(v)));
    for (int matrix = 0; matrix < scenario.batch; ++matrix) {
      const i64 rows = scenario.rows_of(matrix);
      for (i64 row = 0; row < rows; ++row) {
        i64 rest = row, pixel = 0, pitch = 1;
        for (int axis = 0; axis < kMostSpatial; ++axis) {
          const int positions = phases.items[matrix].axes[axis].positions;
          pixel += (phases.items[matrix].first[axis] + rest % positions * v.stride[axis]) * pitch;
          pitch *= v.size[axis];
          rest /= positions;
        }
        ++times[static_cast<size_t>(pixel + rest * pitch)];
      }
    }
  } else if (v.op == ConvOp::wgrad) {
    const Gather gather = gather_for(v, scenario.config.tile.k);
    times.resize(static_cast<size_t>(taps_of(v) * v.channels));
    for (int column = 0; column < scenario.n; ++column)
      if (const int at = filter_column(gather, scenario.n, column); at >= 0)
        ++times.at(static_cast<size_t>(at));
  }
  for (size_t i = 0; i < times.size(); ++i)
    if (times[i] != 1)
      return Failure{times[i] == 0 ? FailureKind::tile_missing : FailureKind::tile_twice,
                     fmt::format("{} {} of D belongs to {} places of the product, and must to one",
                                 v.op == ConvOp::wgrad ? "column" : "pixel", i, times[i])};
  return std::nullopt;
}

using TilePart = std::array<int, 4>;  // m_offset with the group's row, n_offset, batch, cta along k

/// Counts the parts of tiles, one per math group, that have products.
size_t parts_with_products(const Scenario& scenario) {
  const KernelConfig& config = scenario.config;
  const TileGrid grid = scenario.grid();
  size_t parts = 0;
  for (int matrix = 0; matrix < grid.batch; ++matrix) {
    if (scenario.k_tiles_of(matrix) == 0) continue;
    size_t along_m = static_cast<size_t>(grid.rows) * config.cluster.m * combined_parts(config);
    if (has_groups(config)) {
      const GroupRows rows = scenario.group(matrix);
      along_m = static_cast<size_t>(ceil_div(rows.end - rows.begin, group_rows(config)));
    }
    parts += along_m * static_cast<size_t>(grid.columns * config.cluster.n);
  }
  return parts;
}

/// Checks that each k-tile is multiplied once, over all peers and all CTAs of a cluster along k.
std::optional<Failure> check_products(std::span<const ClusterProgram> clusters) {
  const Scenario& scenario = clusters.front().scenario;
  std::map<TilePart, std::vector<int>> multiplied;
  bool outside = false;
  each_step(clusters, [&](const ClusterProgram&, const Agent& agent, const Step& step) {
    if (step.kind != StepKind::issue_mma || step.unit != 0) return;
    std::vector<int>& times = multiplied[{step.tile.m_offset + group_row(scenario.config, agent),
                                          step.tile.n_offset, step.tile.batch, 0}];
    times.resize(static_cast<size_t>(scenario.k_tiles_of(step.tile.batch)));
    if (step.k_tile >= 0 && step.k_tile < static_cast<int>(times.size()))
      ++times[step.k_tile];
    else
      outside = true;
  });
  if (outside) return Failure{FailureKind::accumulator_wrong, "a product of a k-tile that does not exist"};
  for (const auto& [part, times] : multiplied)
    for (size_t k_tile = 0; k_tile < times.size(); ++k_tile)
      if (times[k_tile] != 1)
        return Failure{FailureKind::accumulator_wrong,
                       fmt::format("k-tile {} of rows from {}, columns from {} of matrix {} is multiplied {} "
                                   "times",
                                   k_tile, part[0], part[1], part[2], times[k_tile])};
  const size_t parts = parts_with_products(scenario);
  if (multiplied.size() != parts)
    return Failure{FailureKind::accumulator_wrong,
                   fmt::format("products of {} of {} tiles", multiplied.size(), parts)};
  return std::nullopt;
}

/// The slots and the counter that the peers of one part of a tile use for their partial sums.
struct Peers {
  int counter = -1;
  std::set<std::pair<int, int>> ranks;  // with the first k-tile of each: in the order of k
  int count = 0;
};

class WorkspaceRules {
 public:
  explicit WorkspaceRules(const Scenario& scenario) : scenario_(scenario) {}

  void see(const Agent& agent, const Step& step) {
    const KernelConfig& config = scenario_.config;
    const Sharing& sharing = step.tile.sharing;
    const TilePart part{step.tile.m_offset + group_row(config, agent), step.tile.n_offset, step.tile.batch,
                        agent.cta};
    Peers& peers = peers_[part];
    if (step.kind == StepKind::write_partial) {
      const int slot = part_index(scenario_, agent, sharing.slot + sharing.rank);
      if (!slots_.insert(slot).second) fail(fmt::format("slot {} is written twice", slot));
      if (slot < 0 || slot >= slot_count(scenario_.split) * scenario_.ctas() * combined_parts(config))
        fail(fmt::format("slot {} is outside of the workspace", slot));
      peers.count = sharing.peers;
      if (!peers.ranks.insert({sharing.rank, step.tile.first_k_tile}).second)
        fail(fmt::format("two peers of rank {}", sharing.rank));
    }
    if (step.kind == StepKind::elect) {
      const int counter = part_index(scenario_, agent, sharing.counter);
      if (peers.counter >= 0 && peers.counter != counter)
        fail(fmt::format("peers count at {} and at {}", peers.counter, counter));
      peers.counter = counter;
      if (counter < 0 || counter >= counter_count(config, scenario_.split) || counter >= kWorkspaceCounters)
        fail(fmt::format("counter {} is outside of the workspace", counter));
      const auto [owner, is_new] = counters_.insert({counter, part});
      if (!is_new && owner->second != part) fail(fmt::format("counter {} is used for two tiles", counter));
    }
  }

  std::optional<Failure> finish() {
    for (const auto& [part, peers] : peers_) {
      int rank = 0, k_tile = -1;
      for (const auto& [its_rank, its_k_tile] : peers.ranks) {
        if (its_rank != rank++) fail(fmt::format("no peer of rank {}", rank - 1));
        // A slice may have fewer k-tiles than the cluster has CTAs along k; then several ranks begin at the
        // same k-tile.
        const bool may_be_empty = scenario_.config.cluster.k > 1;
        if (may_be_empty ? its_k_tile < k_tile : its_k_tile <= k_tile)
          fail("the ranks are not in the order of k");
        k_tile = its_k_tile;
      }
      if (rank != peers.count) fail(fmt::format("{} of {} peers write their sums", rank, peers.count));
    }
    return failure_;
  }

 private:
  void fail(const std::string& what) {
    if (!failure_) failure_ = Failure{FailureKind::workspace_overlap, what};
  }

  const Scenario& scenario_;
  std::set<int> slots_;
  std::map<int, TilePart> counters_;
  std::map<TilePart, Peers> peers_;
  std::optional<Failure> failure_;
};

std::optional<Failure> check_workspace(std::span<const ClusterProgram> clusters) {
  WorkspaceRules rules(clusters.front().scenario);
  each_step(clusters, [&](const ClusterProgram&, const Agent& agent, const Step& step) {
    if (step.kind == StepKind::write_partial || step.kind == StepKind::elect) rules.see(agent, step);
  });
  return rules.finish();
}

}  // namespace

std::optional<Failure> check_coverage(std::span<const ClusterProgram> clusters) {
  if (clusters.empty()) return std::nullopt;
  if (auto failure = check_updates(clusters)) return failure;
  if (auto failure = check_stores(clusters)) return failure;
  if (auto failure = check_conv_outputs(clusters.front().scenario)) return failure;
  if (auto failure = check_products(clusters)) return failure;
  return check_workspace(clusters);
}

}  // namespace sluice::twin
