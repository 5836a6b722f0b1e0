// SPDX-License-Identifier: Apache-2.0
// Positions in the ring of stages, and the order of tiles. No PTX: the host twin compiles this file too.
// Invariant: every role that uses the ring goes through the same sequence of positions. So all roles know the
// (stage, phase) of k-tile i without communication.
#pragma once

#include <sluice/spec/params.h>
#include <sluice/device/load/pixel_walk.cuh>

namespace sluice {

/// A role's position in the ring. `phase`: parity of its pass over the ring, as mbarrier waits take it.
struct RingPosition {
  int stage = 0;
  u32 phase = 0;

  SLUICE_DEVICE void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }
  /// The stage before this one.
  SLUICE_DEVICE int previous(int stages) const { return stage == 0 ? stages - 1 : stage - 1; }
  /// Skips k-tiles that another warpgroup handles.
  SLUICE_DEVICE void skip(int count, int stages) {
    const int target = stage + count;
    const int passes = target / stages;
    stage = target - passes * stages;
    phase ^= passes & 1;
  }
};

/// The tiles of one CTA, in order: one slice of a tile if k is split, else each `clusters`-th tile.
template <class Machine>
struct TileCursor {
  const Machine& machine;
  int index;        // index in the list of cluster tiles
  int ordinal = 0;  // number of tiles before this one: ping-pong's groups take even and odd ones

  SLUICE_DEVICE explicit TileCursor(const Machine& m) : machine(m), index(m.cluster_index()) {
    if (in_slices()) index = quotient(index, machine.params().slices.count);
  }
  SLUICE_DEVICE bool valid() const { return index < list_size(); }
  /// If k is split there are as many clusters as slices, so this steps past the last tile.
  SLUICE_DEVICE void advance() {
    index += machine.cluster_count();
    ++ordinal;
  }
  SLUICE_DEVICE Tile tile() const {
    return part_along_k(machine.config(), cluster_tile(), machine.cta_rank());
  }

 private:
  SLUICE_DEVICE int list_size() const {
    const TileGrid& grid = machine.params().grid;
    if (!has_groups(machine.config())) return cluster_tiles(grid);
    return machine.groups().tiles_before(grid.batch) * grid.columns;
  }
  /// The list goes through the groups. Within a group it is the raster of a product of its rows.
  SLUICE_DEVICE Tile group_tile() const {
    const GemmParams& p = machine.params();
    const auto groups = machine.groups();
    const int group = groups.group_of(quotient(index, p.grid.columns), p.grid.batch);
    const int before = groups.tiles_before(group);
    const TileGrid own{groups.tiles_before(group + 1) - before, p.grid.columns, 1, p.grid.k_tiles};
    Tile tile = tile_at(machine.config(), own, p.raster, p.raster_group, index - before * own.columns,
                        machine.cta_rank());
    const GroupRows rows = groups.rows(group);
    tile.m_offset += rows.begin;
    tile.row_end = rows.end;
    tile.batch = group;
    return tile;
  }
  SLUICE_DEVICE Tile cluster_tile() const {
    const GemmParams& p = machine.params();
    if (has_groups(machine.config())) return group_tile();
    Tile tile = tile_at(machine.config(), p.grid, p.raster, p.raster_group, index, machine.cta_rank());
    if (machine.config().conv.phased) tile.k_tiles = phase_of(p, tile.batch).k_tiles;
    if (sums_groups(machine.config()) && p.grid.k_tiles > 0) {  // else alpha is 0
      const GroupRows rows = machine.groups().rows(tile.batch);
      tile.k_begin = rows.begin;
      tile.k_end = rows.end;
      tile.k_tiles = ceil_div(rows.end - rows.begin, machine.config().tile.k);
    }
    if (!in_slices()) return tile;
    const int slice = machine.cluster_index() - index * p.slices.count;
    tile.first_k_tile = slice_begin(p.slices, slice);
    tile.k_tiles = slice_begin(p.slices, slice + 1) - tile.first_k_tile;
    tile.sharing = sharing_of(p.slices, index, slice);
    return tile;
  }
  SLUICE_DEVICE bool in_slices() const {
    return machine.config().combine != Combine::none && machine.params().slices.count > 1;
  }
};

}  // namespace sluice
