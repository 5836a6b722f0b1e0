// SPDX-License-Identifier: Apache-2.0
// Shared memory in which warps that share the k of one tile add up their sums, and then the CTAs of a cluster
// (device/epilogue/warp_sums.cuh): fp32, [warp][column of the sums][row], rows padded so that no two lanes
// meet on a bank.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// Of the tensor core's A and B: weights are rows here, tokens columns.
struct WarpTile {
  int rows = 64;    // a multiple of 16
  int columns = 8;  // a multiple of 8
  int used = 0;     // of those, the first ones: the others are not added up; 0: all
  int warps = 8;    // that have sums of the same rows
  int beside = 1;   // next to each of them, those with the next 16 rows (of a warpgroup), in turn
  int parts = 1;    // CTAs of the cluster
  int pad = 4;  // floats behind each column: no two lanes meet on a bank with 4 if the rows are those of A,
                // with 8 if they are the columns of B

  constexpr bool operator==(const WarpTile&) const = default;
};

SLUICE_HD constexpr int used_columns(const WarpTile& t) {
  return t.used == 0 ? t.columns : t.used;
}
SLUICE_HD constexpr int warp_sums_stride(const WarpTile& t) {
  return t.rows + t.pad;
}
SLUICE_HD constexpr int warp_sums_bytes(const WarpTile& t) {
  return t.warps * used_columns(t) * warp_sums_stride(t) * 4;
}
/// What the cluster's CTAs send one of them: its share of the tile from each. Not where rings are: it comes
/// while those are in use.
SLUICE_HD constexpr int incoming_sums_bytes(const WarpTile& t) {
  return t.parts > 1 ? t.rows * used_columns(t) * 4 : 0;
}

}  // namespace sluice
