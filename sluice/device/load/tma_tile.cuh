// SPDX-License-Identifier: Apache-2.0
// Loads this CTA's slice of one operand tile, and multicasts it to the CTAs that use the same tile. In shared
// memory a tile is a sequence of 128-byte swizzle rows, equal in every CTA of the cluster:
// - K-major: one row per m (or n), 128 bytes of k. A slice is a range of rows.
// - MN-major: blocks of 64 m (or n), with one row per k. A slice is a range of k in every block. The last
//   block may contain columns beyond the tile; blocks outside the matrix are not loaded.
// - Gated B: K-major, with rows in the order of gated_row(). The tensor map's dimensions are k, 8 rows, the
//   two halves of B, groups of both, batch (run/driver/gemm_maps.h).
#pragma once

#include <sluice/spec/loaded_rows.h>
#include <sluice/device/ptx/tma.cuh>

namespace sluice {

/// The part of an operand tile that one CTA loads: slice `index`, sent to the CTAs of `cta_mask`.
struct MulticastSlice {
  int index;
  u16 cta_mask;
};

/// The slices that CTA `rank` of a cluster loads for its row (A) and its column (B). Ranks count down the
/// columns first.
template <int kRows, int kColumns>
struct MulticastSlices {
  static SLUICE_DEVICE MulticastSlice of_a(int rank) {
    constexpr u32 kRow = [] {
      u32 mask = 0;
      for (int column = 0; column < kColumns; ++column) mask |= 1u << column * kRows;
      return mask;
    }();
    const int column = quotient(rank, kRows);
    return {column, static_cast<u16>(kRow << (rank - column * kRows))};
  }
  static SLUICE_DEVICE MulticastSlice of_b(int rank) {
    constexpr u32 kColumn = (1u << kRows) - 1;
    const int first = quotient(rank, kRows) * kRows;
    return {rank - first, static_cast<u16>(kColumn << first)};
  }
};

/// Values of one tile that do not change from k-tile to k-tile. With narrow tiles the math warps wait for the
/// load thread: one division per k-tile costs such products 15 % (docs/findings/rows-outside.md).
struct TileLoad {
  const TensorMap* map;  // map for whole slices, or for the shorter last slice
  int row, batch;        // first row of the slice (K-major) or of the tile (MN-major); matrix of the batch
  u16 cta_mask;
  int blocks;  // MN-major: number of blocks that are loaded
};

template <Major kMajor, int kRows, int kDepth, int kSlices, bool kGated = false>
struct TmaTile {
  static constexpr int kSliceRows = kRows / kSlices;    // K-major
  static constexpr int kSliceDepth = kDepth / kSlices;  // MN-major
  static constexpr int kMnBlockBytes = kDepth * kSwizzleRowBytes;

  /// `extent`: rows of the matrix. `row`: the tile's first row in it.
  static SLUICE_DEVICE TileLoad begin(const TensorMap& whole, const TensorMap& tail,
                                      const MulticastSlice& slice, int extent, int row, int batch) {
    if constexpr (kMajor == Major::k) row += slice.index * kSliceRows;
    const bool shorter = kMajor == Major::k && row + kSliceRows > extent;
    const int blocks = kMajor == Major::k ? 0 : blocks_loaded(extent, row, kRows);
    return {shorter ? &tail : &whole, row, batch, slice.cta_mask, blocks};
  }
  /// `index`: index of the slice. `depth`: offset along k, in elements. `destination`: shared address of the
  /// tile.
  static SLUICE_DEVICE void load(const TileLoad& tile, int index, u32 destination, u32 barrier, int depth) {
    if constexpr (kMajor == Major::k) {
      issue(tile, destination + index * kSliceRows * kSwizzleRowBytes, barrier, depth, tile.row);
    } else {
      const int first = index * kSliceDepth;
#pragma unroll
      for (int block = 0; block < ceil_div(kRows, kMnBlock); ++block) {
        if (block > 0 && block >= tile.blocks) break;
        issue(tile, destination + block * kMnBlockBytes + first * kSwizzleRowBytes, barrier,
              tile.row + block * kMnBlock, depth + first);
      }
    }
  }

 private:
  static SLUICE_DEVICE void issue(const TileLoad& tile, u32 destination, u32 barrier, int inner, int outer) {
    const ptx::TmaBox box{inner, kGated ? outer / kGatedGroup : outer, tile.batch};
    if constexpr (kGated && kSlices == 1)
      ptx::tma_load_gated(destination, *tile.map, box, barrier);
    else if constexpr (kGated)
      ptx::tma_load_gated_multicast(destination, *tile.map, box, barrier, tile.cta_mask);
    else if constexpr (kSlices == 1)
      ptx::tma_load(destination, *tile.map, box, barrier);
    else
      ptx::tma_load_multicast(destination, *tile.map, box, barrier, tile.cta_mask);
  }
};

}  // namespace sluice
