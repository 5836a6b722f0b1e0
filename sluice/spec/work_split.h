// SPDX-License-Identifier: Apache-2.0
// Which CTA computes which part of D, and in what order: arithmetic only, the same on host and device.
// Clusters go through a list of cluster tiles (cluster.m x cluster.n CTA tiles each), and all CTAs of a
// cluster take the same steps. A CTA whose tile is outside D loads almost nothing (loaded_rows.h) and stores
// nothing.
//
// slices = 1: every cluster takes whole tiles, each `clusters`-th of the list.
// slices = S > 1 (split-K): the k-tiles of every tile are cut into S slices, whose lengths differ by at most
// one. There is one cluster per slice: cluster c takes slice c % S of tile c / S. The S clusters of a tile
// are peers. The last peer to arrive adds up their sums, or a second kernel does, or each peer adds its sums
// to D (Combine). Slices that begin anywhere (stream-K) never paid: docs/decisions/0005.
#pragma once

#include <sluice/spec/config.h>

namespace sluice {

/// The index that advances first within a band of `group` cluster tiles. Tiles that run at the same time
/// share the other operand's tile in L2.
enum class Raster : u8 { along_m, along_n };

/// How the clusters of a launch are numbered; the number decides the work of a cluster. launch: in grid
/// order, in which the GPU places neighbours in different GPCs. gpc: neighbours share a GPC, as far as the
/// host can predict placement, so that L2 reads their common operands once (docs/findings/gpc.md).
enum class Numbering : u8 { launch, gpc };
inline constexpr int kMostNumbered = 144;  // most clusters of a launch that can be numbered by GPC

struct WorkSplit {
  int clusters = 1;  // launched; each runs until the list of tiles ends
  Raster raster = Raster::along_m;
  int group = 8;   // cluster tiles per band
  int slices = 1;  // slices along k of every tile; more than 1: clusters = tiles * slices
  Numbering numbering = Numbering::launch;

  constexpr bool operator==(const WorkSplit&) const = default;
};

SLUICE_HD constexpr const char* name_of(Raster raster) {
  return raster == Raster::along_m ? "along_m" : "along_n";
}

SLUICE_HD constexpr const char* name_of(Numbering numbering) {
  return numbering == Numbering::launch ? "launch" : "gpc";
}

/// The list of cluster tiles of one problem.
struct TileGrid {
  int rows = 0;     // cluster tiles along m
  int columns = 0;  // cluster tiles along n
  int batch = 0;
  int k_tiles = 0;  // k-tiles of every tile
};

SLUICE_HD constexpr TileGrid tile_grid(const KernelConfig& c, int m, int n, int k, int batch) {
  return {ceil_div(m, c.tile.m * c.cluster.m), ceil_div(n, c.tile.n * c.cluster.n), batch,
          ceil_div(k, c.tile.k)};
}
SLUICE_HD constexpr int cluster_tiles(const TileGrid& grid) {
  return grid.rows * grid.columns * grid.batch;
}

/// How the k-tiles of a tile are cut: slice s has `share` of them, and one more if s < rest.
struct Slices {
  int count = 1;  // 1: tiles are whole
  int share = 0;
  int rest = 0;
};
/// Requires slices <= k_tiles, so that every slice has at least one k-tile. Without k-tiles nothing is cut.
SLUICE_HD constexpr Slices slices_of(const TileGrid& grid, const WorkSplit& split) {
  if (split.slices == 1 || grid.k_tiles == 0) return {};
  return {split.slices, grid.k_tiles / split.slices, grid.k_tiles % split.slices};
}
/// The first k-tile of a slice.
SLUICE_HD constexpr int slice_begin(const Slices& slices, int slice) {
  return slice * slices.share + min(slice, slices.rest);
}

/// The clusters that share a tile. Their partial sums are in consecutive slots, in the order of k.
struct Sharing {
  int peers = 1;    // number of clusters; 1: the tile is not shared
  int rank = 0;     // this cluster's rank among its peers, in the order of k
  int slot = 0;     // slot of rank 0
  int counter = 0;  // counter of the tile
};
SLUICE_HD constexpr Sharing sharing_of(const Slices& slices, int tile, int slice) {
  return {slices.count, slice, tile * slices.count, tile};
}
/// A workspace begins with 64 KB of counters, which are zero between launches. The slots follow.
inline constexpr i64 kWorkspaceCounterBytes = i64{64} << 10;
inline constexpr int kWorkspaceCounters = kWorkspaceCounterBytes / 4;
inline constexpr int kWorkspaceAlign = 128;
inline constexpr i64 kWorkspaceLimit = (i64{64} << 20) + kWorkspaceCounterBytes;

/// Number of tiles that are cut into slices.
SLUICE_HD constexpr int tiles_in_slices(const WorkSplit& split) {
  return split.slices == 1 ? 0 : split.clusters / split.slices;
}
/// Number of counters that one launch uses.
SLUICE_HD constexpr i64 counter_count(const KernelConfig& c, const WorkSplit& split) {
  return c.combine == Combine::last_arriver
             ? i64{tiles_in_slices(split)} * cluster_size(c) * combined_parts(c)
             : 0;
}
/// Number of slots that one launch uses, in clusters: one per slice.
SLUICE_HD constexpr i64 slot_count(const WorkSplit& split) {
  return split.slices == 1 ? 0 : split.clusters;
}

/// Index, in the whole grid, of the slot or counter for one part of a tile (combined_parts) of one CTA.
/// `index`: index of the cluster tile.
SLUICE_HD constexpr int part_index(const KernelConfig& c, int index, int cta_rank, int part) {
  return (index * cluster_size(c) + cta_rank) * combined_parts(c) + part;
}
/// Floats per slot.
SLUICE_HD constexpr int part_floats(const KernelConfig& c) {
  return group_rows(c) * own_columns(c);
}
/// Floats from the slot of one peer to that of the next.
SLUICE_HD constexpr int peer_pitch(const KernelConfig& c) {
  return part_floats(c) * combined_parts(c) * cluster_size(c);
}

/// Bytes of workspace that one launch needs.
SLUICE_HD constexpr i64 workspace_bytes(const KernelConfig& c, const WorkSplit& split) {
  if (split.slices == 1 || !uses_workspace(c)) return 0;
  return kWorkspaceCounterBytes + 4 * slot_count(split) * cluster_size(c) * c.tile.m * own_columns(c);
}

/// One tile of one CTA, or a slice of it along k. Offsets are in elements and may be outside D.
struct Tile {
  int m_offset = 0;
  int n_offset = 0;
  int batch = 0;
  int k_tiles = 0;  // number of k-tiles to multiply, from first_k_tile on
  int first_k_tile = 0;
  Sharing sharing{};
  int row_end = 0;             // with groups: one past the last row of the tile's group
  int k_begin = 0, k_end = 0;  // with groups along k: the part of k that is summed
};

/// The `index`-th cluster tile of the raster, for the CTA with rank `cta_rank` in its cluster. Rank r is at
/// row r % cluster.m, column r / cluster.m of the cluster tile; in a cluster along k it takes the r-th slice
/// of k.
SLUICE_HD constexpr Tile tile_at(const KernelConfig& c, const TileGrid& grid, Raster raster, int group,
                                 int index, int cta_rank) {
  const int per_matrix = grid.rows * grid.columns;
  // Skips the division if the result is known: it takes 0.05 us of an 8 us kernel, before its first load.
  const int batch = grid.batch == 1 ? 0 : quotient(index, per_matrix);
  const int in_matrix = index - batch * per_matrix;
  const int walk_extent = raster == Raster::along_m ? grid.rows : grid.columns;
  const int other_extent = raster == Raster::along_m ? grid.columns : grid.rows;

  const int band = group >= walk_extent ? 0 : quotient(in_matrix, group * other_extent);
  const int band_begin = band * group;
  const int band_size = min(group, walk_extent - band_begin);
  const int in_band = in_matrix - band_begin * other_extent;
  const int other = band_size == 1 ? in_band : quotient(in_band, band_size);
  const int walk = band_begin + in_band - other * band_size;

  const int row = raster == Raster::along_m ? walk : other;
  const int column = raster == Raster::along_m ? other : walk;
  const int cta_column = multicasts(c) ? quotient(cta_rank, c.cluster.m) : 0;
  const int cta_row = multicasts(c) ? cta_rank - cta_column * c.cluster.m : 0;
  return {(row * c.cluster.m + cta_row) * c.tile.m, (column * c.cluster.n + cta_column) * c.tile.n, batch,
          grid.k_tiles};
}

/// The slice of a tile along k that the CTA with rank `cta_rank` multiplies.
SLUICE_HD constexpr Tile part_along_k(const KernelConfig& c, Tile tile, int cta_rank) {
  if (c.cluster.k == 1) return tile;
  const int begin = tile.k_tiles * cta_rank / c.cluster.k;
  tile.first_k_tile += begin;
  tile.k_tiles = tile.k_tiles * (cta_rank + 1) / c.cluster.k - begin;
  return tile;
}
/// The part of the tile that this CTA stores: it begins at the CTA's own columns.
SLUICE_HD constexpr Tile own_part(const KernelConfig& c, Tile tile, int cta_rank) {
  if (c.cluster.k > 1) tile.n_offset += cta_rank * own_columns(c);
  return tile;
}

}  // namespace sluice
