// SPDX-License-Identifier: Apache-2.0
// Loads a slice of A whose rows may end with a group. A full slice is one box. Of another, small boxes bring
// the rows that live; the last may bring rows of the next group, whose sums are not stored.
#pragma once

#include <sluice/device/load/tma_tile.cuh>

namespace sluice {

template <KernelConfig kConfig>
struct GroupedRows {
  static constexpr int kSliceRows = kConfig.tile.m / kConfig.cluster.n;
  static constexpr int kSmallRows = small_box_rows(kSliceRows);

  /// `blocks`: number of boxes.
  using State = TileLoad;

  static SLUICE_DEVICE State begin(const GemmParams& params, const MulticastSlice& slice, const Tile& tile) {
    const int row = tile.m_offset + slice.index * kSliceRows;
    const bool whole = row + kSliceRows <= tile.row_end;
    return {whole ? &params.map_a : &params.map_a_tail, row, 0, slice.cta_mask,
            whole ? 1 : small_boxes(tile.row_end, row, kSliceRows)};
  }
  static SLUICE_DEVICE void load(const GemmParams&, const State& state, int index, u32 destination,
                                 u32 barrier, int k_tile) {
#pragma unroll 1
    for (int box = 0; box < state.blocks; ++box) {
      const int first = box * kSmallRows;  // 0 if the slice is whole
      const u32 to = destination + (index * kSliceRows + first) * kSwizzleRowBytes;
      const ptx::TmaBox at{k_tile * kConfig.tile.k, state.row + first, 0};
      if constexpr (kConfig.cluster.n == 1)
        ptx::tma_load(to, *state.map, at, barrier);
      else
        ptx::tma_load_multicast(to, *state.map, at, barrier, state.cta_mask);
    }
  }
};

}  // namespace sluice
