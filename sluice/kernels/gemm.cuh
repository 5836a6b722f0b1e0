// SPDX-License-Identifier: Apache-2.0
// The dense GEMM: persistent, warp-specialised, ping-pong or cooperative. This file defines what each role
// does, step by step, without naming a GPU instruction. Other files hold the rest of the protocol:
//   device/pipeline.cuh   the order of tiles, and positions in the ring
//   spec/smem_layout.h    arrival counts of the barriers
//   device/machine.cuh    each step on the GPU. Its start() and meet() initialise the barriers, synchronise
//   the
//                         CTA or cluster, and trigger at the start
//
// The host twin (sluice/twin/) implements the same steps in a simulation. It searches this file, pipeline.cuh
// and the counts for deadlocks and races without a GPU. It does not cover start() and meet().
//
// clang-format off
// Roles (384 threads; kThreads)
//   warpgroup 0    load    one thread fills the stages with TMA
//                  scales  with block scales: two more warps write them to shared memory for each stage
//                  strided with operands that TMA cannot address: three more warps write these into the stages
//                  list    with groups: the last warp reads their table before any tile
//                          (warps without a role exit at once)
//   warpgroups 1,2 math    WGMMA from the stages into registers, then the epilogue and the store of their tile
//                          ping_pong: each takes every second tile, so that one multiplies while the other stores
//                          cooperative: both take every tile, half of its rows each
// In start() warp 1 initialises all barriers while the loading warp computes its first tile. No thread uses a
// barrier before meet().
//
// Barriers (counts: spec/smem_layout.h)  who arrives                               who waits
//   full[stage]   full_arrivals          load thread (expect), TMA (the bytes),    math groups that read the stage
//                                        each warp that writes block scales
//                                        or strided operands
//   empty[stage]  empty_arrivals         each math warp that read the stage, in    load thread, and in its own CTA
//                                        every CTA that loads into it              the warps that write scales
//                                                                                  or strided operands
//   turn[group]   turn_arrivals          each math warp of the other group         math group (ping_pong only)
// and in clusters along k, per math group:
//   sums_full[group]   sums_full_arrivals   one thread of the group (expect), the data itself       the group
//   sums_empty[group]  sums_empty_arrivals  each warp of this group in every CTA, after it has      the group, before it
//                                           read what this CTA sent                                 sends again
// clang-format on
// All barriers start in phase 0. The first wait on `empty` or `sums_empty`, and group 0's first wait on
// `turn`, use the parity of the previous phase, which counts as complete.
//
// Ping-pong needs `turn` for correctness, because a wait names a parity and not a phase number. A group that
// is two passes over the ring ahead of the other would see an old phase of the same parity, and read a stage
// too early. A group passes the turn on after it has issued its last k-tile. By then all earlier full
// barriers have completed.
//
// A CTA may exit without a cluster barrier, because the load thread waits at the end until every stage is
// empty. By then all arrivals from peers have happened, and the math groups have waited for all bytes that
// peers send to this CTA. In a cluster along k they also wait until every peer has read what this CTA sent.
#pragma once

#include <sluice/device/pipeline.cuh>

namespace sluice {

inline constexpr u32 kFreshBarrier = 1;  // flips the parity: in the first pass over the ring a role need not
                                         // wait

/// The tile that is loaded at present. The loading warp computes the first one while other warps initialise
/// barriers (docs/findings/first-load.md), unless the list is read first.
template <class Machine>
struct LoadWalk {
  Machine& machine;
  TileCursor<Machine> tiles;
  Tile tile;  // valid if `more`
  bool more = false;

  SLUICE_DEVICE explicit LoadWalk(Machine& m) : machine(m), tiles(m) {
    if (!reads_table(machine.config()) && machine.is_load_warp()) begin();
  }
  SLUICE_DEVICE void advance() {
    tiles.advance();
    begin();
  }
  SLUICE_DEVICE void begin() {
    more = tiles.valid();
    if (!more) return;
    tile = tiles.tile();
    machine.begin_loads(tile);
  }
};

/// Loads the problem's B: weights, which no other launch writes. With swapped operands B's rows are the
/// tile's rows.
template <class Machine>
SLUICE_DEVICE void load_weights(Machine& machine, int stage, int k_tile) {
  if (is_swapped(machine.config()))
    machine.load_a(stage, k_tile);
  else
    machine.load_b(stage, k_tile);
}
template <class Machine>
SLUICE_DEVICE void load_tokens(Machine& machine, int stage, int k_tile) {
  if (is_swapped(machine.config()))
    machine.load_b(stage, k_tile);
  else
    machine.load_a(stage, k_tile);
}

/// Loads the weights for the CTA's first stages, which are still empty, because weights may be read before
/// the PDL wait. Returns how many stages it has loaded.
template <class Machine>
SLUICE_DEVICE int load_weights_early(Machine& machine, const LoadWalk<Machine>& walk) {
  if (!walk.more) return 0;
  const int count = min(machine.config().stages, walk.tile.k_tiles);
  for (int stage = 0; stage < count; ++stage) {
    machine.expect_stage(stage);
    load_weights(machine, stage, walk.tile.first_k_tile + stage);
  }
  return count;
}

template <class Machine>
SLUICE_DEVICE void load_role(Machine& machine, LoadWalk<Machine>& walk) {
  const int stages = machine.config().stages;
  int early = 0;  // stages that already have their weights
  // Not with warps that load a strided operand: math warps could then empty a stage, and it could complete a
  // phase, before this thread waits for it.
  const bool alone = !loads_strided(machine.config());
  if (alone && machine.config().overlap.wait == Wait::weights_first)
    early = load_weights_early(machine, walk);
  machine.prefetch();
  machine.wait_prerequisites();
  RingPosition ring;
  for (; walk.more; walk.advance()) {
    const int first = walk.tile.first_k_tile, end = first + walk.tile.k_tiles;
    for (int k_tile = first; k_tile < end; ++k_tile) {
      machine.wait_empty(ring.stage, ring.phase ^ kFreshBarrier);
      const bool has_weights = early > 0;
      if (!has_weights) machine.expect_stage(ring.stage);
      load_tokens(machine, ring.stage, k_tile);
      if (!has_weights) load_weights(machine, ring.stage, k_tile);
      if (has_weights) --early;
      ring.advance(stages);
    }
  }
  if (machine.config().overlap.trigger == Trigger::after_loads) machine.launch_dependents();
  machine.hand_off();
  for (int stage = 0; stage < stages; ++stage) {
    machine.wait_empty(ring.stage, ring.phase ^ kFreshBarrier);
    ring.advance(stages);
  }
}

/// Writes block scales to shared memory for each stage. It loads them before the stage is free, so that their
/// HBM latency is hidden, as the operands' is.
template <class Machine>
SLUICE_DEVICE void scale_role(Machine& machine) {
  machine.wait_prerequisites();
  RingPosition ring;
  for (TileCursor tiles(machine); tiles.valid(); tiles.advance()) {
    const Tile tile = tiles.tile();
    machine.begin_scales(tile);
    const int end = tile.first_k_tile + tile.k_tiles;
    for (int k_tile = tile.first_k_tile; k_tile < end; ++k_tile) {
      machine.fetch_scales(k_tile);
      machine.wait_empty(ring.stage, ring.phase ^ kFreshBarrier);
      machine.write_scales(ring.stage, k_tile);
      machine.publish_scales(ring.stage);
      ring.advance(machine.config().stages);
    }
  }
}

/// Writes operands that TMA cannot address, while the load thread loads the other operand. The first part of
/// a k-tile is read before the stage is free.
template <class Machine>
SLUICE_DEVICE void strided_role(Machine& machine) {
  machine.wait_prerequisites();
  RingPosition ring;
  for (TileCursor tiles(machine); tiles.valid(); tiles.advance()) {
    const Tile tile = tiles.tile();
    machine.begin_strided(tile);
    const int end = tile.first_k_tile + tile.k_tiles;
    for (int k_tile = tile.first_k_tile; k_tile < end; ++k_tile) {
      machine.fetch_strided(k_tile);
      machine.wait_empty(ring.stage, ring.phase ^ kFreshBarrier);
      machine.write_strided(ring.stage, k_tile);
      machine.publish_strided(ring.stage);
      ring.advance(machine.config().stages);
    }
  }
}

/// Accumulates one tile, with one k-tile in flight: a stage is released once the products of the next one are
/// issued. On return the last k-tile may still be in flight and its stage not released; finish_tile()
/// completes both. In between, ping-pong passes the turn on.
template <class Machine>
SLUICE_DEVICE void multiply_tile(Machine& machine, RingPosition& ring, const Tile& tile) {
  const int stages = machine.config().stages;
  for (int k_tile = 0; k_tile < tile.k_tiles; ++k_tile) {
    machine.wait_full(ring.stage, ring.phase);
    if (sums_groups(machine.config()) && k_tile + 1 == tile.k_tiles) machine.clear_rest(ring.stage, tile);
    machine.issue_mma(0, ring.stage, /*fresh=*/k_tile == 0);
    if (k_tile != 0) {
      machine.wait_mma_but_newest();
      machine.release_stage(ring.previous(stages));
    }
    ring.advance(stages);
  }
}

/// multiply_tile() with promotion: the products of each k-tile go into partial sums, pass by pass, which are
/// then added to the accumulators. While one math warpgroup adds, the tensor core works for the other. No
/// product is in flight when a k-tile ends: ptxas serialises products whose sums are read in a later
/// iteration of the loop (docs/findings/promotion.md).
template <class Machine>
SLUICE_DEVICE void multiply_tile_promoted(Machine& machine, RingPosition& ring, int k_tiles) {
  const int last_unit = units(machine.config()) - 1;
  const bool reads_late = scales_each_column(machine.config().epilogue);  // promote() reads columns' scales
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    machine.wait_full(ring.stage, ring.phase);
    machine.read_scales(ring.stage);
#pragma unroll
    for (int unit = 0; unit <= last_unit; ++unit) {
      machine.issue_mma(unit, ring.stage, /*fresh=*/true);
      machine.wait_mma();
      if (unit == last_unit && !reads_late) machine.release_stage(ring.stage);
      machine.promote(unit, ring.stage);
      if (unit == last_unit && reads_late) machine.release_stage(ring.stage);
    }
    ring.advance(machine.config().stages);
  }
}

/// Releases the stages of a tile in which this math group has no rows. It waits for each, because a stage
/// that was released before it is full would count for the next pass over the ring.
template <class Machine>
SLUICE_DEVICE void pass_tile(Machine& machine, RingPosition& ring, const Tile& tile) {
  for (int k_tile = 0; k_tile < tile.k_tiles; ++k_tile) {
    machine.wait_full(ring.stage, ring.phase);
    machine.pass_stage(ring.stage, tile, k_tile);
    machine.release_stage(ring.stage);
    ring.advance(machine.config().stages);
  }
}

/// Waits for the products that multiply_tile() left in flight, and releases their stage.
template <class Machine>
SLUICE_DEVICE void finish_tile(Machine& machine, const RingPosition& ring, int k_tiles) {
  machine.wait_mma();
  if (k_tiles > 0 && !machine.config().promotes)
    machine.release_stage(ring.previous(machine.config().stages));
}

/// The exchange of partial sums in a cluster along k, where each CTA has accumulated one slice of k. Each CTA
/// sends every CTA (itself included) the partial sums of that CTA's columns. It adds up those that it
/// receives, in the order of k, and so has the complete sums of its own columns.
template <class Machine>
SLUICE_DEVICE void exchange_sums(Machine& machine, const Tile& tile, u32& phase) {
#pragma unroll
  for (int pass = 0; pass < machine.exchange_passes(); ++pass) {
    machine.wait_sums_empty(phase ^ kFreshBarrier);
    machine.send_sums(tile, pass);
    machine.wait_sums_full(phase);
    machine.receive_sums(tile, pass);
    machine.release_sums();
    phase ^= 1;
  }
}

/// Combines split-K slices. Each peer of a shared tile writes its partial sums to a slot of its own and then
/// increments the tile's counter; no peer waits. The counter tells the last peer that it is the last, and
/// wraps back to zero. The last peer adds up all slots in the order of k, so the bits do not depend on which
/// peer is last.
/// Returns true for the last peer, which then holds the sums of the whole tile. With Combine::separate no
/// peer is the last: the next kernel adds up the slots (kernels/sum_parts.cuh).
template <class Machine>
SLUICE_DEVICE bool combine_tile(Machine& machine, const Tile& tile) {
  machine.write_partial(tile);
  if (machine.config().combine == Combine::separate) return false;
  machine.publish_partial();
  if (!machine.is_last_arriver(tile)) return false;
  machine.sum_partials(tile);
  return true;
}

/// Stores one chunk. A buffer is filled again only after the copy engine has read it; the wait for that is
/// placed as late as possible.
template <class Machine>
SLUICE_DEVICE void store_chunk(Machine& machine, const Tile& tile, int wave, int column, int& buffer) {
  machine.wait_store_buffer();
  machine.write_chunk(buffer, tile, wave, column);
  machine.publish_chunk();
  machine.issue_store(buffer, tile, wave, column);
  buffer ^= 1;
}

/// Epilogue of one tile: stores its columns chunk by chunk through two buffers per math group. `buffer`
/// persists across tiles: after an odd number of chunks the next tile starts with the other buffer. Loops of
/// heavy epilogues are not unrolled. Unrolled, they would spill and take seconds to compile
/// (docs/findings/heavy-epilogues.md).
template <class Machine>
SLUICE_DEVICE void store_tile(Machine& machine, const Tile& tile, int& buffer) {
  machine.wait_vectors();
  if (machine.config().store == StorePath::direct) return machine.store_direct(tile);
  const int columns = store_columns(machine.config());
  if (unrolls_stores(machine.config())) {
#pragma unroll
    for (int wave = 0; wave < waves(machine.config()); ++wave)
#pragma unroll
      for (int column = 0; column < own_outputs(machine.config()); column += columns)
        store_chunk(machine, tile, wave, column, buffer);
  } else {
#pragma unroll 1
    for (int wave = 0; wave < waves(machine.config()); ++wave)
#pragma unroll 1
      for (int column = 0; column < own_outputs(machine.config()); column += columns)
        store_chunk(machine, tile, wave, column, buffer);
  }
}

template <class Machine>
SLUICE_DEVICE void math_role(Machine& machine) {
  const bool ping_pong = machine.config().schedule == Schedule::ping_pong;
  const int group = machine.math_group();
  u32 turn_phase = group == 0 ? 1 : 0;  // group 0 starts
  RingPosition ring;
  u32 exchange_phase = 0;
  int buffer = 0;
  for (TileCursor tiles(machine); tiles.valid(); tiles.advance()) {
    const Tile tile = tiles.tile();
    if (ping_pong && tiles.ordinal % kMathGroups != group) {
      ring.skip(tile.k_tiles, machine.config().stages);
      continue;
    }
    if (may_lack_rows(machine.config()) && !machine.has_rows(tile)) {
      pass_tile(machine, ring, tile);
      continue;
    }
    const Tile own = own_part(machine.config(), tile, machine.cta_rank());
    machine.stage_vectors(own);
    if (ping_pong) machine.wait_turn(turn_phase);
    machine.begin_tile(tile.k_tiles);
    if (machine.config().promotes)
      multiply_tile_promoted(machine, ring, tile.k_tiles);
    else
      multiply_tile(machine, ring, tile);
    if (ping_pong) machine.pass_turn();
    finish_tile(machine, ring, tile.k_tiles);
    // A group without rows of D has nothing to send, and neither have the same groups of its peers.
    if (machine.config().cluster.k > 1 && machine.has_rows(tile))
      exchange_sums(machine, tile, exchange_phase);
    const bool stores_own = !uses_workspace(machine.config());  // complete sums, or a slice that is added to
                                                                // D
    if (stores_own || tile.sharing.peers == 1 || combine_tile(machine, own)) store_tile(machine, own, buffer);
    machine.end_tile();
    turn_phase ^= 1;
  }
  machine.finish_stores();
  if (machine.config().cluster.k > 1) machine.wait_sums_empty(exchange_phase ^ kFreshBarrier);
}

/// With groups, the list of tiles, or their parts of k, depend on a table that an earlier launch may write.
/// All threads of the CTA wait for it: one warp reads it, the others use what that warp left in shared
/// memory.
template <class Machine>
SLUICE_DEVICE void read_list(Machine& machine) {
  machine.wait_prerequisites();
  machine.read_list();
}

template <class Machine>
SLUICE_DEVICE void run_roles(Machine& machine) {
  machine.start();
  if (machine.is_load_role()) {
    LoadWalk<Machine> walk(machine);
    machine.meet();
    machine.enter_load_role();
    if (reads_table(machine.config())) {
      read_list(machine);
      if (machine.is_load_warp()) walk.begin();
    }
    if (machine.is_load_thread())
      load_role(machine, walk);
    else if (machine.is_scale_warp())
      scale_role(machine);
    else if (machine.is_strided_warp())
      strided_role(machine);
  } else {
    machine.meet();
    machine.enter_math_role();
    if (reads_table(machine.config()))
      read_list(machine);
    else
      machine.wait_prerequisites();
    machine.read_tensor_scales();
    math_role(machine);
  }
}

}  // namespace sluice
