// SPDX-License-Identifier: Apache-2.0
// Shared memory in which the warps that divide the k of one tile add up their sums, and then the CTAs of a
// cluster (device/epilogue/warp_sums.cuh). Layout: fp32 [warp][column][row], with padding that avoids bank
// conflicts.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// A tile as the tensor core sees it: weights are rows, tokens are columns.
struct WarpTile {
  int rows = 64;    // a multiple of 16; of 8 if the rows are those of A
  int columns = 8;  // a multiple of 8
  int used = 0;     // leading columns that are added up; 0: all
  int warps = 8;    // warps that have partial sums of the same rows
  int beside = 1;   // warps with different rows: the next one has the next 16 rows (in a warpgroup)
  int parts = 1;    // CTAs of the cluster
  // Floats of padding per column that avoid bank conflicts: 4 if the rows are those of A, 8 if they are the
  // columns of B.
  int pad = 4;

  constexpr bool operator==(const WarpTile&) const = default;
};

/// Blocks of 16 rows for which a warp has sums; the last may be outside the tile, or half outside.
SLUICE_HD constexpr int warp_blocks(const WarpTile& t) {
  return ceil_div(ceil_div(t.rows, 16), t.beside);
}
SLUICE_HD constexpr int used_columns(const WarpTile& t) {
  return t.used == 0 ? t.columns : t.used;
}
SLUICE_HD constexpr int warp_sums_stride(const WarpTile& t) {
  return t.rows + t.pad;
}
SLUICE_HD constexpr int warp_sums_bytes(const WarpTile& t) {
  return t.warps * used_columns(t) * warp_sums_stride(t) * 4;
}
/// Bytes that the other CTAs send to one CTA: its share of the tile from each. They have memory of their own,
/// because they arrive while the rings are in use.
SLUICE_HD constexpr int incoming_sums_bytes(const WarpTile& t) {
  return t.parts > 1 ? t.rows * used_columns(t) * 4 : 0;
}

}  // namespace sluice
