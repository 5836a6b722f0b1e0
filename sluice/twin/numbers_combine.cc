// SPDX-License-Identifier: Apache-2.0
// Partial sums that are sent to other CTAs: to those of a cluster along k, and through the workspace to the
// last peer of a tile. They are added in the same order as on the GPU. See numbers.h.
#include <algorithm>
#include <limits>

#include <sluice/reference/element.h>
#include <sluice/spec/part_sums.h>
#include <sluice/twin/numbers.h>

namespace sluice::twin {

Workspace::Workspace(const KernelConfig& config, const WorkSplit& split)
    : slots(static_cast<size_t>(uses_workspace(config) ? slot_count(split) : 0) * cluster_size(config) *
            combined_parts(config)),
      counters(static_cast<size_t>(counter_count(config, split)), 0) {
  // Slots have arbitrary contents before a launch. NaN makes a use of them visible.
  const int floats = group_rows(config) * own_columns(config);
  for (auto& slot : slots) slot.assign(floats, std::numeric_limits<float>::quiet_NaN());
}

bool Numbers::is_last(int agent, const Step& elect) const {
  const int index = part_index(scenario_, agent_at(scenario_, agent), elect.tile.sharing.counter);
  return workspace_.counters[index] >= static_cast<u32>(elect.count);
}

void Numbers::count_arrival(const Agent& agent, const Step& elect) {
  u32& counter = workspace_.counters[part_index(scenario_, agent, elect.tile.sharing.counter)];
  counter = counter >= static_cast<u32>(elect.count) ? 0 : counter + 1;  // atom.inc
}

void Numbers::write_partial(const Agent& agent, const Tile& tile) {
  const KernelConfig& c = work_.config;
  const std::vector<float>& sums = group_of(agent).sums;
  std::vector<float>& slot =
      workspace_.slots[part_index(scenario_, agent, tile.sharing.slot + tile.sharing.rank)];
  for (int row = 0; row < group_rows(c); ++row)
    std::copy_n(&sums[row * c.tile.n], own_columns(c), &slot[row * own_columns(c)]);
}

void Numbers::sum_partials(const Agent& agent, const Tile& tile) {
  const KernelConfig& c = work_.config;
  std::vector<float>& sums = group_of(agent).sums;
  for (int rank = 0; rank < tile.sharing.peers; ++rank) {
    const std::vector<float>& slot = workspace_.slots[part_index(scenario_, agent, tile.sharing.slot + rank)];
    for (int row = 0; row < group_rows(c); ++row)
      for (int column = 0; column < own_columns(c); ++column) {
        float& sum = sums[row * c.tile.n + column];
        const float partial = slot[row * own_columns(c) + column];
        sum = rank == 0 ? partial : sum + partial;
      }
  }
}

/// Adds slices in the order of kernels/sum_parts.cuh: first the peers of each warpgroup, then the warpgroups.
void Numbers::sum_parts() {
  const KernelConfig& c = work_.config;
  const TileGrid grid = scenario_.grid();
  const auto [blocks, columns, summers] = sum_grid(c, tiles_in_slices(scenario_.split));
  for (i64 block = 0; block < blocks; ++block) {
    const SumBlock at = sum_block(c, static_cast<int>(block), columns);
    const Sharing sharing = sharing_of(scenario_.slices(), at.tile, 0);
    const Tile tile =
        own_part(c, tile_at(c, grid, scenario_.split.raster, scenario_.split.group, at.tile, at.cta_rank),
                 at.cta_rank);
    ++stores_;
    for (int i = 0; i < kWaveRows * columns; ++i) {
      const int row = at.wave * kWaveRows + i / columns, column = at.column + i % columns;
      const ElementIndex element{tile.batch, tile.m_offset + at.part * group_rows(c) + row,
                                 tile.n_offset + column};
      const i64 index = d_place(element);
      if (index < 0) continue;
      float sum = 0.0f;
      for (int summer = 0; summer < summers; ++summer) {
        const PeerRange peers = peers_of_summer(sharing.peers, summers, summer);
        float share = 0.0f;
        for (int rank = peers.begin; rank < peers.end; ++rank)
          share += workspace_.slots[sluice::part_index(c, sharing.slot + rank, at.cta_rank, at.part)]
                                   [row * own_columns(c) + column];
        sum += share;
      }
      const double value = epilogue(&sum, element);
      if (adds(c.epilogue))
        add_to_d(index, static_cast<float>(value));
      else
        store_element(c.d, work_.buffers.d, index, value);
    }
  }
}

/// Copies the sums from registers now; they arrive later.
void Numbers::send(const Agent& agent, const Step& step) {
  const KernelConfig& c = work_.config;
  const Group& group = group_of(agent);
  std::vector<float>& sent = group_of(agent).sent[step.target];
  const int first = step.target * own_columns(c) + step.stage * pass_columns(c);
  sent.clear();
  for (int row = 0; row < group_rows(c); ++row)
    sent.insert(sent.end(), &group.sums[row * c.tile.n + first],
                &group.sums[row * c.tile.n + first] + pass_columns(c));
}

void Numbers::on_sums(int cta, int group, int sender, const Step& send) {
  groups_[cta * kMathGroups + group].received[sender] =
      groups_[sender * kMathGroups + group].sent[send.target];
}

void Numbers::receive(const Agent& agent, const Step& step) {
  if (step.count == 0) return;  // all rows are outside D
  const KernelConfig& c = work_.config;
  Group& group = group_of(agent);
  for (int row = 0; row < group_rows(c); ++row)
    for (int i = 0; i < pass_columns(c); ++i) {
      float& sum = group.sums[row * c.tile.n + step.stage * pass_columns(c) + i];
      for (int sender = 0; sender < c.cluster.k; ++sender) {
        const float more = group.received[sender][row * pass_columns(c) + i];
        sum = sender == 0 ? more : sum + more;
      }
    }
}

}  // namespace sluice::twin
