// SPDX-License-Identifier: Apache-2.0
// Loaders of a convolution's operands (operands.cuh defines the interface of a loader).
// - Im2colRows, for fprop and dgrad: rows of a K-major tile are pixels, and a k-tile is a block of channels
//   at one tap. In shared memory it is a K-major tile of tma_tile.cuh.
// - FilterTaps, for fprop and dgrad: the filter is a batch of matrices, one per tap. A k-tile is a block of
//   channels at one tap, so its matrix changes from k-tile to k-tile.
// - Im2colColumns, for wgrad: columns of an MN-major tile are atoms of 64 channels at one tap, its k is
//   pixels. In shared memory an atom is one MN-major block of tma_tile.cuh. Atoms beyond the last are not
//   loaded. A tile that is wholly outside loads the last atom, because CTAs of a cluster wait for each
//   other's slices.
#pragma once

#include <sluice/device/load/pixel_walk.cuh>
#include <sluice/device/load/tma_tile.cuh>
#include <sluice/device/ptx/tma_im2col.cuh>

namespace sluice {

/// A pixel by its own coordinates, as tma_store_pixels takes it.
template <int kSpatial>
SLUICE_DEVICE ptx::PixelAt pixel_of(const PixelWalk<kSpatial>& pixel, int channel) {
  ptx::PixelAt at{channel, pixel.at[0], 0, 0, pixel.image};
  if constexpr (kSpatial > 1) at.h = pixel.at[1];
  if constexpr (kSpatial > 2) at.d = pixel.at[2];
  return at;
}
/// The pixel's coordinates in the gathered tensor, before the tap's offset.
template <int kSpatial>
SLUICE_DEVICE ptx::PixelAt pixel_at(const PixelWalk<kSpatial>& pixel, const PixelBox& box, int channel) {
  ptx::PixelAt at{channel, pixel.place(box, 0), 0, 0, pixel.image};
  if constexpr (kSpatial > 1) at.h = pixel.place(box, 1);
  if constexpr (kSpatial > 2) at.d = pixel.place(box, 2);
  return at;
}

template <KernelConfig kConfig>
struct Im2colRows {
  static constexpr int kSlices = kConfig.cluster.n, kSliceRows = kConfig.tile.m / kSlices;
  static constexpr int kSpatial = kConfig.conv.spatial;
  struct State {
    const TensorMap* map;
    ptx::PixelAt first;
    TapWalk taps;
    u16 cta_mask;
  };

  static SLUICE_DEVICE State begin(const GemmParams& params, const MulticastSlice& slice, const Tile& tile) {
    const int row = tile.m_offset + slice.index * kSliceRows;
    const PixelBox& box = box_of_tile(params, tile);
    PixelWalk<kSpatial> pixel;
    pixel.begin(box, row);
    State state;
    if constexpr (kConfig.conv.phased)
      state.map = &phase_of(params, tile.batch).map_a;
    else
      state.map = row + kSliceRows > params.m ? &params.map_a_tail : &params.map_a;
    state.first = pixel_at(pixel, box, 0);
    state.taps.begin(taps_of_tile<kConfig>(params, tile), tile.first_k_tile);
    state.cta_mask = slice.cta_mask;
    return state;
  }
  static SLUICE_DEVICE void load(const GemmParams& params, State& state, int index, u32 destination,
                                 u32 barrier, int) {
    ptx::PixelAt at = state.first;
    at.channel = state.taps.block * kConfig.tile.k;
    const u32 slice = destination + index * kSliceRows * kSwizzleRowBytes;
    const Tap& tap = gather_of(params).taps[state.taps.tap];
    if constexpr (kSlices == 1)
      ptx::tma_load_pixels<kSpatial>(slice, *state.map, at, tap, barrier);
    else
      ptx::tma_load_pixels_multicast<kSpatial>(slice, *state.map, at, tap, barrier, state.cta_mask);
    state.taps.advance();
  }

 private:
  static SLUICE_DEVICE const PixelBox& box_of_tile(const GemmParams& params, const Tile& tile) {
    if constexpr (kConfig.conv.phased) return phase_of(params, tile.batch).pixels;
    return gather_of(params).pixels;
  }
};

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
    state.taps.begin(taps_of_tile<kConfig>(params, tile), tile.first_k_tile);
    return state;
  }
  static SLUICE_DEVICE void load(const GemmParams& params, State& state, int index, u32 destination,
                                 u32 barrier, int) {
    state.tile.batch = gather_of(params).taps[state.taps.tap].filter;
    Matrices::load(state.tile, index, destination, barrier, state.taps.block * kConfig.tile.k);
    state.taps.advance();
  }
};

template <KernelConfig kConfig>
struct Im2colColumns {
  static constexpr int kSlices = kConfig.cluster.m, kDepth = kConfig.tile.k / kSlices;
  static constexpr int kSpatial = kConfig.conv.spatial, kAtoms = kConfig.tile.n / kMnBlock;
  struct State {
    PixelWalk<kSpatial> pixel;
    int atoms;
    AtomPlace place[kAtoms];
    u16 cta_mask;
  };

  static SLUICE_DEVICE State begin(const GemmParams& params, const MulticastSlice& slice, const Tile& tile) {
    const Gather& gather = gather_of(params);
    State state;
    state.pixel.begin(gather.pixels, tile.first_k_tile * kConfig.tile.k + slice.index * kDepth);
    state.atoms = blocks_loaded(params.n, tile.n_offset, kConfig.tile.n);
    const int first = min(tile.n_offset, params.n - kMnBlock) / kMnBlock;
#pragma unroll
    for (int i = 0; i < kAtoms; ++i) state.place[i].find(gather, first + i);
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
