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

/// The tiles of one CTA, in order: its run of streamed k-tiles, then whole tiles.
template <class Machine>
struct TileCursor {
  const Machine& machine;
  int k_tile = 0, run_end = 0;  // the remainder of this cluster's run of streamed k-tiles
  int index;                    // index in the list of cluster tiles, once the run has ended
  int ordinal = 0;              // number of tiles before this one: ping-pong's groups take even and odd ones

  SLUICE_DEVICE explicit TileCursor(const Machine& m) : machine(m), index(m.cluster_index()) {
    if (!streams()) return;
    const Deal& deal = machine.params().deal;
    index += deal.tiles;
    if (deal.tiles == 0) return;
    k_tile = run_begin(deal, machine.cluster_index());
    run_end = run_begin(deal, machine.cluster_index() + 1);
  }
  SLUICE_DEVICE bool valid() const { return in_run() || index < cluster_tiles(machine.params().grid); }
  SLUICE_DEVICE void advance() {
    if (in_run())
      k_tile += run_length();
    else
      index += machine.cluster_count();
    ++ordinal;
  }
  SLUICE_DEVICE Tile tile() const {
    return part_along_k(machine.config(), cluster_tile(), machine.cta_rank());
  }

 private:
  SLUICE_DEVICE Tile cluster_tile() const {
    const GemmParams& p = machine.params();
    if (!in_run()) return whole(index);
    const int streamed_tile = quotient(k_tile, p.grid.k_tiles);
    Tile tile = whole(streamed_tile);
    tile.first_k_tile = k_tile - streamed_tile * p.grid.k_tiles;
    tile.k_tiles = run_length();
    tile.sharing = sharing_of(p.grid, p.deal, streamed_tile, machine.cluster_index());
    return tile;
  }
  SLUICE_DEVICE bool streams() const { return machine.config().combine != Combine::none; }
  SLUICE_DEVICE bool in_run() const { return streams() && k_tile < run_end; }
  /// Number of k-tiles to the end of the tile or of the run, whichever comes first.
  SLUICE_DEVICE int run_length() const {
    const int k_tiles = machine.params().grid.k_tiles;
    const int in_tile = k_tile - quotient(k_tile, k_tiles) * k_tiles;
    return min(k_tiles - in_tile, run_end - k_tile);
  }
  SLUICE_DEVICE Tile whole(int list_index) const {
    const GemmParams& p = machine.params();
    Tile tile = tile_at(machine.config(), p.grid, p.raster, p.raster_group, list_index, machine.cta_rank());
    if (machine.config().conv.phased) tile.k_tiles = phase_of(p, tile.batch).k_tiles;
    return tile;
  }
};

}  // namespace sluice
