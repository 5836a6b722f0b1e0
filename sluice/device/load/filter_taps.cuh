// SPDX-License-Identifier: Apache-2.0
// The filter of fprop and dgrad: a batch of matrices, one for each tap. A k-tile is a block of channels at
// one tap, so its matrix changes from k-tile to k-tile.
#pragma once

#include <sluice/device/load/pixel_walk.cuh>
#include <sluice/device/load/tma_tile.cuh>

namespace sluice {

template <KernelConfig kConfig>
struct FilterTaps {
  using Matrices = TmaTile<kConfig.b_major, kConfig.tile.n, kConfig.tile.k, kConfig.cluster.m>;
  struct State {
    TileLoad tile;
    TapWalk taps;
  };

  static SLUICE_DEVICE State begin(const GemmParams& params, const MulticastSlice& slice, const Tile& tile) {
    State state;
    state.tile = Matrices::begin(params.map_b, params.map_b_tail, slice, params.n, tile.n_offset, 0);
    state.taps.begin(gather_of(params), tile.first_k_tile, first_tap_of<kConfig>(params, tile));
    return state;
  }
  static SLUICE_DEVICE void load(const GemmParams& params, State& state, int index, u32 destination,
                                 u32 barrier, int) {
    const Gather& gather = gather_of(params);
    state.tile.batch = gather.taps[state.taps.tap].filter;
    Matrices::load(state.tile, index, destination, barrier, state.taps.block * kConfig.tile.k);
    state.taps.advance(gather);
  }
};

}  // namespace sluice
