// SPDX-License-Identifier: Apache-2.0
// The part of a tile that TMA loads. TMA takes longer to fill rows outside the matrix with zeros than to load
// rows from L2 (docs/findings/rows-outside.md), so most of these are not loaded. Their places in the stage
// keep old bytes; products with those bytes belong to rows and columns that D does not have.
// A slice is the part of a tile that one CTA loads. A slice that crosses the edge of the matrix, or is
// outside, is loaded with the shorter box of the matrix's last slice. MN-major tiles consist of blocks of 64
// rows, and blocks outside are not loaded. But every slice loads something: CTAs of a cluster stay within one
// pass of the ring only because they wait for each other's slices.
#pragma once

#include <sluice/spec/smem_layout.h>
#include <sluice/spec/work_split.h>

namespace sluice {

// the swizzle repeats after this many rows, so box heights are multiples of it
inline constexpr int kLoadRows = 8;

/// Rows of the shorter box, for a K-major matrix of `extent` rows in slices of `rows`. `unit`: rows that stay
/// together (row_group).
SLUICE_HD constexpr int tail_rows(int extent, int rows, int unit = kLoadRows) {
  const int rest = extent - quotient(extent, rows) * rows;
  return rest == 0 ? unit : quotient(rest + unit - 1, unit) * unit;
}
/// Rows that are loaded for the slice that begins at row `first`.
SLUICE_HD constexpr int slice_rows(int extent, int first, int rows, int unit = kLoadRows) {
  return first + rows <= extent ? rows : tail_rows(extent, rows, unit);
}

/// Rows that are loaded for all `slices` slices of the tile that begins at row `first`.
SLUICE_HD constexpr int tile_rows_loaded(int extent, int first, int rows, int slices, int unit = kLoadRows) {
  const int slice = rows / slices;
  const int whole = extent <= first ? 0 : min(quotient(extent - first, slice), slices);
  return whole * slice + (slices - whole) * tail_rows(extent, slice, unit);
}
/// Blocks of 64 that are loaded for an MN-major tile of `rows` rows from `first` on: those with rows inside
/// the matrix, and at least one.
SLUICE_HD constexpr int blocks_loaded(int extent, int first, int rows) {
  const int inside = extent <= first ? 0 : ceil_div(extent - first, kMnBlock);
  return max(1, min(inside, ceil_div(rows, kMnBlock)));
}

/// Rows of the small boxes in which a slice of A comes that its group does not fill.
SLUICE_HD constexpr int small_box_rows(int slice) {
  return max(kLoadRows, slice / 8);
}
/// Small boxes of the slice that begins at row `first` of a group that ends at `row_end`; every slice loads
/// something.
SLUICE_HD constexpr int small_boxes(int row_end, int first, int slice) {
  return max(1, ceil_div(row_end - first, small_box_rows(slice)));
}
/// Rows that are loaded for the slice that begins at row `first`.
SLUICE_HD constexpr int group_slice_rows(int row_end, int first, int slice) {
  return first + slice <= row_end ? slice : small_boxes(row_end, first, slice) * small_box_rows(slice);
}
/// Rows that are loaded for all slices of a tile whose group ends at tile.row_end.
SLUICE_HD constexpr int group_tile_rows(const KernelConfig& c, const Tile& tile) {
  const int slice = c.tile.m / c.cluster.n;
  int rows = 0;
  for (int first = 0; first < c.tile.m; first += slice)
    rows += group_slice_rows(tile.row_end, tile.m_offset + first, slice);
  return rows;
}

/// Bytes that the copy engine writes to a stage for one k-tile of `tile`, by loads of all CTAs.
SLUICE_HD constexpr int loaded_bytes_a(const KernelConfig& c, int m, const Tile& tile) {
  if (c.load_a == Load::strided) return 0;
  if (c.conv.phased) return kSwizzleRowBytes * c.tile.m;  // phases have no shorter boxes
  if (has_groups(c)) return kSwizzleRowBytes * group_tile_rows(c, tile);
  if (c.a_major == Major::mn) return kSwizzleRowBytes * c.tile.k * blocks_loaded(m, tile.m_offset, c.tile.m);
  return kSwizzleRowBytes * tile_rows_loaded(m, tile.m_offset, c.tile.m, c.cluster.n);
}
SLUICE_HD constexpr int loaded_bytes_b(const KernelConfig& c, int n, const Tile& tile) {
  if (c.load_b == Load::strided) return 0;
  if (c.b_major == Major::mn) return kSwizzleRowBytes * c.tile.k * blocks_loaded(n, tile.n_offset, c.tile.n);
  return kSwizzleRowBytes * tile_rows_loaded(n, tile.n_offset, c.tile.n, c.cluster.m, row_group(c));
}

}  // namespace sluice
