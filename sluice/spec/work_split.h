// SPDX-License-Identifier: Apache-2.0
// Which CTA computes which part of D, and in what order: arithmetic only, the same on host and device.
// Clusters go through a list of cluster tiles (cluster.m x cluster.n CTA tiles each), and all CTAs of a
// cluster take the same steps. A CTA whose tile is outside D loads almost nothing (loaded_rows.h) and stores
// nothing.
//
// The first `streamed` tiles of the list are divided among clusters by k-tile. Their k-tiles, laid end to
// end, are cut into one run per cluster; run lengths differ by at most one. A run may begin and end inside a
// tile. Clusters that share a tile are peers. The last peer to arrive adds up their sums, or a second kernel
// does, or each peer adds its sums to D (Combine). The other tiles are assigned whole, to every cluster each
// `clusters`-th tile.
//   data-parallel   streamed = 0
//   split(S)        streamed = all tiles, clusters = tiles * S; slices are equal if S divides a tile's
//   k-tiles stream-K        streamed = all tiles, or those of the last wave or two; clusters = as many as fit
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
  int group = 8;     // cluster tiles per band
  int streamed = 0;  // leading tiles of the list that are divided among clusters by k-tile
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

/// How the streamed tiles are divided: cluster c gets `share` k-tiles, and one more if c < rest.
struct Deal {
  int tiles = 0;  // 0: nothing is streamed
  int share = 0;
  int rest = 0;
};
/// Requires streamed * k_tiles >= clusters, so that every cluster gets at least one k-tile, and streamed *
/// k_tiles < 2^31.
SLUICE_HD constexpr Deal deal_of(const TileGrid& grid, const WorkSplit& split) {
  if (split.streamed == 0 || grid.k_tiles == 0) return {};
  const int k_tiles = split.streamed * grid.k_tiles;
  return {split.streamed, k_tiles / split.clusters, k_tiles % split.clusters};
}
/// The first k-tile of a cluster's run, counted through all streamed tiles.
SLUICE_HD constexpr int run_begin(const Deal& deal, int cluster) {
  return cluster * deal.share + min(cluster, deal.rest);
}
/// The cluster whose run contains k-tile `k_tile`, counted through all streamed tiles.
SLUICE_HD constexpr int cluster_of(const Deal& deal, int k_tile) {
  const int longer = deal.rest * (deal.share + 1);  // k-tiles of the longer runs
  return k_tile < longer ? quotient(k_tile, deal.share + 1)
                         : deal.rest + quotient(k_tile - longer, deal.share);
}

/// The clusters that share a streamed tile. Their partial sums are in consecutive slots, in the order of k.
struct Sharing {
  int peers = 1;    // number of clusters; 1: the tile is not shared
  int rank = 0;     // this cluster's rank among its peers, in the order of k
  int slot = 0;     // slot of rank 0
  int counter = 0;  // counter of the tile
};
/// The sharing of a streamed tile. Slots of consecutive tiles do not overlap, because at most one cluster
/// works on both.
SLUICE_HD constexpr Sharing sharing_of(const TileGrid& grid, const Deal& deal, int streamed_tile,
                                       int cluster) {
  const int first = cluster_of(deal, streamed_tile * grid.k_tiles);
  const int last = cluster_of(deal, (streamed_tile + 1) * grid.k_tiles - 1);
  return {last - first + 1, cluster - first, first + streamed_tile, streamed_tile};
}
/// A workspace begins with 64 KB that are zero between launches: the counters and, in the last 128 bytes, the
/// owner stamp of debug kernels (workspace_stamp.h). The slots follow.
inline constexpr i64 kWorkspaceCounterBytes = i64{64} << 10;
inline constexpr i64 kWorkspaceStampOffset = kWorkspaceCounterBytes - 128;
inline constexpr int kWorkspaceCounters = kWorkspaceStampOffset / 4;
inline constexpr int kWorkspaceAlign = 128;
inline constexpr i64 kWorkspaceLimit = (i64{64} << 20) + kWorkspaceCounterBytes;

/// Number of counters that one launch uses.
SLUICE_HD constexpr i64 counter_count(const KernelConfig& c, const WorkSplit& split) {
  return c.combine == Combine::last_arriver ? i64{split.streamed} * cluster_size(c) * combined_parts(c) : 0;
}
SLUICE_HD constexpr i64 slot_count(const WorkSplit& split) {
  return split.streamed == 0 ? 0 : i64{split.clusters} + split.streamed - 1;
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
  if (split.streamed == 0 || !uses_workspace(c)) return 0;
  return kWorkspaceCounterBytes + 4 * slot_count(split) * cluster_size(c) * c.tile.m * own_columns(c);
}

/// One tile of one CTA, or a run of its k-tiles. Offsets are in elements and may be outside D.
struct Tile {
  int m_offset = 0;
  int n_offset = 0;
  int batch = 0;
  int k_tiles = 0;  // number of k-tiles to multiply, from first_k_tile on
  int first_k_tile = 0;
  Sharing sharing{};
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
