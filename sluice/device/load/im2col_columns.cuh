// SPDX-License-Identifier: Apache-2.0
// The gathered operand of wgrad: columns of an MN-major tile are atoms of 64 channels at one tap, its k is
// pixels. In shared memory an atom is one MN-major block of tma_tile.cuh. Atoms past the last are not loaded;
// a tile that lies outside loads the last, since CTAs of a cluster wait for each other's slices.
#pragma once

#include <sluice/device/load/im2col_rows.cuh>

namespace sluice {

template <KernelConfig kConfig>
struct Im2colColumns {
  static constexpr int kSlices = kConfig.cluster.m, kDepth = kConfig.tile.k / kSlices;
  static constexpr int kSpatial = kConfig.conv.spatial, kAtoms = kConfig.tile.n / kMnBlock;
  struct State {
    PixelWalk<kSpatial> pixel;
    int atoms;
    TapWalk place[kAtoms];
    u16 cta_mask;
  };

  static SLUICE_DEVICE State begin(const GemmParams& params, const MulticastSlice& slice, const Tile& tile) {
    const Gather& gather = gather_of(params);
    State state;
    state.pixel.begin(gather.pixels, tile.first_k_tile * kConfig.tile.k + slice.index * kDepth);
    state.atoms = blocks_loaded(params.n, tile.n_offset, kConfig.tile.n);
    const int first = min(tile.n_offset, params.n - kMnBlock) / kMnBlock;
#pragma unroll
    for (int i = 0; i < kAtoms; ++i) state.place[i].begin(gather, first + i, 0);
    state.cta_mask = slice.cta_mask;
    return state;
  }
  static SLUICE_DEVICE void load(const GemmParams& params, State& state, int index, u32 destination,
                                 u32 barrier, int) {
    const Gather& gather = gather_of(params);
    const u32 slice = destination + index * kDepth * kSwizzleRowBytes;
#pragma unroll
    for (int i = 0; i < kAtoms; ++i) {
      if (i >= state.atoms) break;
      const ptx::PixelAt at = pixel_at(state.pixel, gather.pixels, state.place[i].block * kMnBlock);
      const u32 block = slice + i * kConfig.tile.k * kSwizzleRowBytes;
      const Tap& tap = gather.taps[state.place[i].tap];
      if constexpr (kSlices == 1)
        ptx::tma_load_pixels<kSpatial>(block, params.map_b, at, tap, barrier);
      else
        ptx::tma_load_pixels_multicast<kSpatial>(block, params.map_b, at, tap, barrier, state.cta_mask);
    }
    state.pixel.advance(gather);
  }
};

}  // namespace sluice
