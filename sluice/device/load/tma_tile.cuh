// SPDX-License-Identifier: Apache-2.0
// Loads this CTA's share of one operand tile, and multicasts it to the CTAs that work on the same tile.
// In shared memory a tile is a sequence of 128-byte swizzle rows, the same bytes for every CTA of the
// cluster:
//   K-major:  one row for each m (or n), 128 bytes of k.     A slice is a run of rows.
//   MN-major: blocks of 64 m (or n); in a block one row for each k.  A slice is a run of k rows in every
//   block.
#pragma once

#include <sluice/spec/smem_layout.h>
#include <sluice/device/ptx/tma.cuh>

namespace sluice {

inline constexpr int kMnBlock = 64;  // m or n of one 128-byte swizzle row of a 16-bit MN-major operand

/// What one CTA loads of an operand tile: slice `index` of `count`, for the CTAs of `cta_mask`.
struct MulticastSlice {
  int index;
  u16 cta_mask;
};

template <Major kMajor, int kRows, int kDepth, int kSlices>
struct TmaTile {
  static constexpr int kSliceRows = kRows / kSlices;    // K-major
  static constexpr int kSliceDepth = kDepth / kSlices;  // MN-major
  static constexpr int kMnBlockBytes = kDepth * kSwizzleRowBytes;

  /// `row`, `depth`: offsets of the tile in the matrix, in elements.
  static SLUICE_DEVICE void load(const TensorMap& map, u32 destination, u32 barrier,
                                 const MulticastSlice& slice, int row, int depth, int batch) {
    if constexpr (kMajor == Major::k) {
      const int first = slice.index * kSliceRows;
      issue(map, destination + first * kSwizzleRowBytes, barrier, slice, {depth, row + first, batch});
    } else {
      const int first = slice.index * kSliceDepth;
#pragma unroll
      for (int block = 0; block < kRows / kMnBlock; ++block)
        issue(map, destination + block * kMnBlockBytes + first * kSwizzleRowBytes, barrier, slice,
              {row + block * kMnBlock, depth + first, batch});
    }
  }

 private:
  static SLUICE_DEVICE void issue(const TensorMap& map, u32 destination, u32 barrier,
                                  const MulticastSlice& slice, ptx::TmaBox box) {
    if constexpr (kSlices == 1)
      ptx::tma_load(destination, map, box, barrier);
    else
      ptx::tma_load_multicast(destination, map, box, barrier, slice.cta_mask);
  }
};

}  // namespace sluice
