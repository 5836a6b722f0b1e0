// SPDX-License-Identifier: Apache-2.0
// Positions in the ring of stages, and the walk over tiles. No PTX: the host twin compiles this file too.
// Invariant: every role that touches the ring makes exactly the same sequence of positions, so (stage, phase)
// of the i-th k-tile is the same number everywhere without communication.
#pragma once

#include <sluice/spec/params.h>

namespace sluice {

/// Where a role is in the ring. `phase` is the parity of the pass over the ring, as mbarrier waits take it.
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
  /// Passes over k-tiles that another warpgroup works on.
  SLUICE_DEVICE void skip(int count, int stages) {
    const int target = stage + count;
    const int passes = target / stages;
    stage = target - passes * stages;
    phase ^= passes & 1;
  }
};

/// The tiles of one CTA, in order.
template <class Machine>
struct TileCursor {
  const Machine& machine;
  int index;        // in the list of cluster tiles
  int ordinal = 0;  // how many tiles this CTA has passed: ping-pong's groups take even and odd ones

  SLUICE_DEVICE explicit TileCursor(const Machine& m) : machine(m), index(m.cluster_index()) {}
  SLUICE_DEVICE bool valid() const { return index < cluster_tiles(machine.params().grid); }
  SLUICE_DEVICE void advance() {
    index += machine.cluster_count();
    ++ordinal;
  }
  SLUICE_DEVICE Tile tile() const {
    const GemmParams& p = machine.params();
    return tile_at(machine.config(), p.grid, p.raster, p.raster_group, index, machine.cta_rank());
  }
};

}  // namespace sluice
