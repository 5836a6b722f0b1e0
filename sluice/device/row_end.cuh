// SPDX-License-Identifier: Apache-2.0
// Where the rows of a tile's matrix end: in a plain product at m, in a phase and in a group earlier.
#pragma once

#include <sluice/device/load/pixel_walk.cuh>

namespace sluice {

/// One past the last row that the tile may store.
template <KernelConfig kConfig>
SLUICE_DEVICE int row_end_of(const GemmParams& params, const Tile& tile) {
  if constexpr (has_groups(kConfig)) return tile.row_end;
  if constexpr (kConfig.conv.phased) return phase_of(params, tile.batch).m;
  return params.m;
}
/// The tile's matrix of A, C and D.
template <KernelConfig kConfig>
SLUICE_DEVICE int row_matrix_of(const Tile& tile) {
  return has_groups(kConfig) ? 0 : tile.batch;
}

}  // namespace sluice
