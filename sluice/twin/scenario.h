// SPDX-License-Identifier: Apache-2.0
// The scenario of an exploration: a config, a problem size, a work split, and the roles of one cluster that
// execute it. Agents are numbered cta * agents_per_cta + role. Role 0 loads. Role 1 copies block scales or
// strided operands, if there are any. The next roles are the warps of math group 0, then those of group 1.
#pragma once

#include <span>
#include <vector>

#include <sluice/spec/conv_params.h>
#include <sluice/spec/groups.h>
#include <sluice/spec/smem_layout.h>
#include <sluice/spec/work_split.h>
#include <sluice/twin/step.h>

namespace sluice::twin {

/// The ints of a GroupTable (spec/groups.h).
struct GroupInts {
  std::vector<int> values;

  int get(int i) const { return values.at(static_cast<size_t>(i)); }
};

/// Reads a table as a warp of the kernel does, lane after lane.
GroupInts read_groups(const KernelConfig& config, const Groups& groups, int total,
                      std::span<const int> numbers);

struct Scenario {
  KernelConfig config{};
  int m = 1, n = 1, k = 1, batch = 1;
  WorkSplit split{};
  /// 1: each math group is one agent, whose warps arrive together. kMathWarps: each warp is an agent.
  int warps_per_group = 1;
  Conv conv{};         // the convolution; m, n, k and batch are those of its product
  GroupInts groups{};  // the table of groups, as roles find it in shared memory; `batch` is their number

  GroupRows group(int matrix) const { return GroupTable<GroupInts>{groups, config.groups.most}.rows(matrix); }

  TileGrid grid() const { return tile_grid(config, m, n, k, batch); }
  Slices slices() const { return slices_of(grid(), split); }
  /// Return rows and k-tiles of one matrix of the batch; those of phases differ.
  int rows_of(int matrix) const {
    if (!config.conv.phased) return m;
    return static_cast<int>(conv.images * phases_of(conv).items[matrix].positions());
  }
  /// Returns the number of cluster tiles.
  int list_size() const {
    if (!has_groups(config)) return cluster_tiles(grid());
    return GroupTable<GroupInts>{groups, config.groups.most}.tiles_before(batch) * grid().columns;
  }
  /// Returns one past the last row that a tile may store.
  int row_end_of(const Tile& tile) const { return has_groups(config) ? tile.row_end : rows_of(tile.batch); }
  int k_tiles_of(int matrix) const {
    if (sums_groups(config) && k != 0)
      return ceil_div(group(matrix).end - group(matrix).begin, config.tile.k);
    if (!config.conv.phased || k == 0) return grid().k_tiles;
    return phases_of(conv).items[matrix].taps() * channel_blocks(conv, config.tile.k);
  }
  int ctas() const { return cluster_size(config); }
  /// Returns the first role that multiplies.
  int first_math() const { return is_block_scaled(config.epilogue) || loads_strided(config) ? 2 : 1; }
  int agents_per_cta() const { return first_math() + kMathGroups * warps_per_group; }
  int agents() const { return ctas() * agents_per_cta(); }
};

enum class Role : u8 { load, copies, math };  // copies: block scales, or strided operands

/// An agent's place and role.
struct Agent {
  int cta = 0;
  Role role = Role::math;
  int group = 0;  // math only
  int warp = 0;   // number in the group
};
inline Agent agent_at(const Scenario& s, int index) {
  const int cta = index / s.agents_per_cta(), role = index % s.agents_per_cta();
  if (role < s.first_math()) return {.cta = cta, .role = role == 0 ? Role::load : Role::copies};
  const int warp = role - s.first_math();
  return {.cta = cta, .group = warp / s.warps_per_group, .warp = warp % s.warps_per_group};
}

/// Returns the index of the slot or counter of the agent's group.
inline int part_index(const Scenario& s, const Agent& agent, int index) {
  const int part = s.config.schedule == Schedule::cooperative ? agent.group : 0;
  return sluice::part_index(s.config, index, agent.cta, part);
}

using StepList = std::vector<Step>;

/// All roles of one cluster, as recorded.
struct ClusterProgram {
  Scenario scenario{};
  int cluster = 0;
  std::vector<StepList> agents;
};

}  // namespace sluice::twin
