// SPDX-License-Identifier: Apache-2.0
// The gathered operand of fprop and dgrad: rows of a K-major tile are pixels, and a k-tile is a block of
// channels at one tap. In shared memory it is a K-major tile of tma_tile.cuh.
#pragma once

#include <sluice/device/load/pixel_walk.cuh>
#include <sluice/device/load/tma_tile.cuh>
#include <sluice/device/ptx/tma_im2col.cuh>

namespace sluice {

/// A pixel by its own axes, as a store takes it.
template <int kSpatial>
SLUICE_DEVICE ptx::PixelAt pixel_of(const PixelWalk<kSpatial>& pixel, int channel) {
  ptx::PixelAt at{channel, pixel.at[0], 0, 0, pixel.image};
  if constexpr (kSpatial > 1) at.h = pixel.at[1];
  if constexpr (kSpatial > 2) at.d = pixel.at[2];
  return at;
}
/// The pixel's place in the gathered tensor, before the tap's offset.
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
    state.taps.begin(gather_of(params), tile.first_k_tile, first_tap_of<kConfig>(params, tile));
    state.cta_mask = slice.cta_mask;
    return state;
  }
  static SLUICE_DEVICE void load(const GemmParams& params, State& state, int index, u32 destination,
                                 u32 barrier, int) {
    const Gather& gather = gather_of(params);
    ptx::PixelAt at = state.first;
    at.channel = state.taps.block * kConfig.tile.k;
    const u32 slice = destination + index * kSliceRows * kSwizzleRowBytes;
    const Tap& tap = gather.taps[state.taps.tap];
    if constexpr (kSlices == 1)
      ptx::tma_load_pixels<kSpatial>(slice, *state.map, at, tap, barrier);
    else
      ptx::tma_load_pixels_multicast<kSpatial>(slice, *state.map, at, tap, barrier, state.cta_mask);
    state.taps.advance(gather);
  }

 private:
  static SLUICE_DEVICE const PixelBox& box_of_tile(const GemmParams& params, const Tile& tile) {
    if constexpr (kConfig.conv.phased) return phase_of(params, tile.batch).pixels;
    return gather_of(params).pixels;
  }
};

}  // namespace sluice
