// SPDX-License-Identifier: Apache-2.0
// The counters of pixels and taps with which a load thread traverses a convolution. No PTX: the host twin
// compiles this file too.
#pragma once

#include <sluice/spec/params.h>

namespace sluice {

SLUICE_DEVICE const Gather& gather_of(const GemmParams& params) {
  return static_cast<const ConvParams&>(params).gather;
}
SLUICE_DEVICE const PhaseParams& phase_of(const GemmParams& params, int phase) {
  return static_cast<const PhasedParams&>(params).phases[phase];
}

/// A pixel of the product by its coordinates. Pixels are numbered along w first, then h, d and images.
template <int kSpatial>
struct PixelWalk {
  int at[kSpatial], image;

  SLUICE_DEVICE void begin(const PixelBox& box, int pixel) {
#pragma unroll
    for (int axis = 0; axis < kSpatial; ++axis) {
      const int rest = quotient(pixel, box.positions[axis]);
      at[axis] = pixel - rest * box.positions[axis];
      pixel = rest;
    }
    image = pixel;
  }
  /// Advances by a k-tile of pixels: one addition and one comparison per axis.
  SLUICE_DEVICE void advance(const Gather& gather) {
    int carry = 0;
#pragma unroll
    for (int axis = 0; axis < kSpatial; ++axis) {
      at[axis] += gather.advance_at[axis] + carry;
      carry = at[axis] >= gather.pixels.positions[axis];
      if (carry) at[axis] -= gather.pixels.positions[axis];
    }
    image += gather.advance_images + carry;
  }
  /// The pixel's coordinate along an axis of the gathered tensor, before the tap's offset.
  SLUICE_DEVICE int place(const PixelBox& box, int axis) const {
    return at[axis] * box.step[axis] + box.lower[axis];
  }
};

/// The taps of one matrix of the product: `count` entries of Gather::taps from `first` on.
struct TapRange {
  int first, count;
};
template <KernelConfig kConfig>
SLUICE_DEVICE TapRange taps_of_tile(const GemmParams& params, const Tile& tile) {
  const int blocks = gather_of(params).blocks;
  if constexpr (kConfig.conv.phased) {
    const PhaseParams& phase = phase_of(params, tile.batch);
    return {phase.first_tap, quotient(phase.k_tiles, blocks)};
  }
  return {0, quotient(params.grid.k_tiles, blocks)};
}

/// The tap and the block of channels of a k-tile (fprop, dgrad). All taps of a block come before the next
/// block: they read the same pixels, which are then still in L2 (docs/findings/convolutions.md).
struct TapWalk {
  int block, tap;
  int first, behind;  // the range

  /// For a phase without taps, which has no k-tiles, begin() is called too.
  SLUICE_DEVICE void begin(const TapRange& taps, int k_tile) {
    block = quotient(k_tile, max(taps.count, 1));
    first = taps.first;
    behind = first + taps.count;
    tap = first + k_tile - block * taps.count;
  }
  SLUICE_DEVICE void advance() {
    if (++tap != behind) return;
    tap = first;
    ++block;
  }
};

/// The tap and the block of channels of an atom of 64 columns (wgrad). All blocks of a tap come before the
/// next tap, as in D.
struct AtomPlace {
  int block, tap;

  SLUICE_DEVICE void find(const Gather& gather, int atom) {
    tap = quotient(atom, gather.blocks);
    block = atom - tap * gather.blocks;
  }
};

/// The column of the filter's gradient for column `column` of a product with n columns; -1 if there is none.
/// A wgrad's product has whole blocks of channels per tap; D has only the channels that exist.
SLUICE_DEVICE int filter_column(const Gather& gather, int n, int column) {
  const int tap = quotient(column, gather.blocks * kConvBlock);
  const int channel = column - tap * gather.blocks * kConvBlock;
  return column < n && channel < gather.channels ? tap * gather.channels + channel : -1;
}
/// The column of D for column `column` of the product; -1 if there is none.
template <KernelConfig kConfig>
SLUICE_DEVICE int d_column(const GemmParams& params, int column) {
  if constexpr (kConfig.conv.op == ConvOp::wgrad) return filter_column(gather_of(params), params.n, column);
  return column;
}

}  // namespace sluice
