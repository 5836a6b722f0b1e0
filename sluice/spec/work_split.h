// SPDX-License-Identifier: Apache-2.0
// Which CTA computes which part of D, and in what order: arithmetic only, the same on host and device.
// Clusters walk a list of cluster tiles (cluster.m x cluster.n CTA tiles each), `clusters` apart, so that
// every CTA of a cluster always does the same number of tiles; a CTA whose tile lies outside D loads next
// to nothing (loaded_rows.h) and stores nothing.
#pragma once

#include <sluice/spec/config.h>

namespace sluice {

/// The index that the walk steps along first, inside a band of `group` cluster tiles: neighbours in time
/// share the other operand's tile in L2.
enum class Raster : u8 { along_m, along_n };

struct WorkSplit {
  int clusters = 1;  // launched; each runs until the list is done
  Raster raster = Raster::along_m;
  int group = 8;  // cluster tiles in a band

  constexpr bool operator==(const WorkSplit&) const = default;
};

SLUICE_HD constexpr const char* name_of(Raster raster) {
  return raster == Raster::along_m ? "along_m" : "along_n";
}

/// The list of cluster tiles of one problem.
struct TileGrid {
  int rows = 0;     // cluster tiles along m
  int columns = 0;  // cluster tiles along n
  int batch = 0;
  int k_tiles = 0;  // of every tile
};

SLUICE_HD constexpr TileGrid tile_grid(const KernelConfig& c, int m, int n, int k, int batch) {
  return {ceil_div(m, c.tile.m * c.cluster.m), ceil_div(n, c.tile.n * c.cluster.n), batch,
          ceil_div(k, c.tile.k)};
}
SLUICE_HD constexpr int cluster_tiles(const TileGrid& grid) {
  return grid.rows * grid.columns * grid.batch;
}

/// One tile of one CTA. Offsets are in elements and may lie past the edge of D.
struct Tile {
  int m_offset = 0;
  int n_offset = 0;
  int batch = 0;
  int k_tiles = 0;
};

/// The `index`-th cluster tile of the walk, seen from the CTA with rank `cta_rank` in its cluster.
/// Rank r sits at row r % cluster.m, column r / cluster.m of the cluster tile.
SLUICE_HD constexpr Tile tile_at(const KernelConfig& c, const TileGrid& grid, Raster raster, int group,
                                 int index, int cta_rank) {
  const int per_matrix = grid.rows * grid.columns;
  const int batch = index / per_matrix;
  const int in_matrix = index - batch * per_matrix;
  const int walk_extent = raster == Raster::along_m ? grid.rows : grid.columns;
  const int other_extent = raster == Raster::along_m ? grid.columns : grid.rows;

  const int band = in_matrix / (group * other_extent);
  const int band_begin = band * group;
  const int band_size = min(group, walk_extent - band_begin);
  const int in_band = in_matrix - band_begin * other_extent;
  const int other = in_band / band_size;
  const int walk = band_begin + in_band - other * band_size;

  const int row = raster == Raster::along_m ? walk : other;
  const int column = raster == Raster::along_m ? other : walk;
  const int cta_row = cta_rank % c.cluster.m, cta_column = cta_rank / c.cluster.m;
  return {(row * c.cluster.m + cta_row) * c.tile.m, (column * c.cluster.n + cta_column) * c.tile.n, batch,
          grid.k_tiles};
}

}  // namespace sluice
