// SPDX-License-Identifier: Apache-2.0
// Block scales of D, computed in registers. A row's 128 columns of a WGMMA fragment lie in the four threads
// of a quad, so two shuffles find their largest magnitude. The arithmetic is that of kernels/quantize.cuh.
// Called by device/epilogue/tile_store.cuh, and by tests on the host.
#pragma once

#include <sluice/device/math/e4m3_scale.cuh>

namespace sluice {

/// Groups of 8 columns in a block.
inline constexpr int kBlockGroups = kScaleBlock / 8;

/// Scales of a thread's two rows.
struct QuadScales {
  float upper, lower;
};

/// The larger of `bits` and the magnitudes of a pair, of which only the elements inside D count.
template <class Pair>
SLUICE_DEVICE u32 larger_magnitude(u32 bits, const Pair& pair, bool has_x, bool has_y) {
  const u32 x = has_x ? __builtin_bit_cast(u32, pair.x) & 0x7fffffffu : 0;
  const u32 y = has_y ? __builtin_bit_cast(u32, pair.y) & 0x7fffffffu : 0;
  bits = x > bits ? x : bits;
  return y > bits ? y : bits;
}

/// Multiplies a thread's values of a block, so that they are ready for e4m3, and returns the scales of its
/// rows. Call from whole warps. `columns`: columns of D from the thread's first one on; what lies behind them
/// does not count, and is not stored.
template <class Fragment>
SLUICE_DEVICE QuadScales quantise_block(Fragment (&groups)[kBlockGroups], int columns) {
  u32 upper_bits = 0, lower_bits = 0;
#pragma unroll
  for (int i = 0; i < kBlockGroups; ++i) {
    const bool has_x = 8 * i < columns, has_y = 8 * i + 1 < columns;
    upper_bits = larger_magnitude(upper_bits, groups[i].upper, has_x, has_y);
    lower_bits = larger_magnitude(lower_bits, groups[i].lower, has_x, has_y);
  }
  const quantize::Scale upper = quantize::scale_of(quantize::largest_of_lanes(upper_bits, 4));
  const quantize::Scale lower = quantize::scale_of(quantize::largest_of_lanes(lower_bits, 4));
#pragma unroll
  for (int i = 0; i < kBlockGroups; ++i) {
    groups[i].upper = {groups[i].upper.x * upper.multiplier, groups[i].upper.y * upper.multiplier};
    groups[i].lower = {groups[i].lower.x * lower.multiplier, groups[i].lower.y * lower.multiplier};
  }
  return {upper.scale, lower.scale};
}

}  // namespace sluice
