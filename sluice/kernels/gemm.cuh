// SPDX-License-Identifier: Apache-2.0
// The dense GEMM: persistent, warp-specialised, ping-pong or cooperative. This file says what the roles do,
// step by step, and names no instruction. Other files hold the rest of the protocol: device/pipeline.cuh the
// order of tiles and ring positions, spec/smem_layout.h the arrival counts, device/machine.cuh each step on
// the GPU. Its start() and meet() initialise the barriers, let the CTA or cluster meet, and trigger at the
// start.
//
// The host twin (sluice/twin/) gives the steps a simulated meaning. This source, pipeline.cuh and the counts
// are thus explored for deadlocks and races without a GPU; start() and meet() are not.
//
// clang-format off
// Roles (384 threads; kThreads)
//   warpgroup 0    load   one thread fills the stages with TMA
//                  scales two more warps bring block scales, if there are any, beside each stage; the rest leave at once
//                  strided three warps bring operands that TMA cannot address, if there are any, into the stages
//   warpgroups 1,2 math   WGMMA from the stages into registers, then the epilogue and the store of their tile
//                         ping_pong: each takes every second tile, so that one multiplies while the other stores
//                         cooperative: both take every tile, half of its rows each
// In start() warp 1 initialises all barriers while the loading warp finds its first tile. No thread uses a barrier
// before meet().
//
// Barriers (counts: spec/smem_layout.h)  who arrives                               who waits
//   full[stage]   full_arrivals          load thread (expect), TMA (the bytes),    math groups that read the stage
//                                        each warp that brings block scales
//                                        or strided operands
//   empty[stage]  empty_arrivals         each math warp that read the stage, at    load thread, and in its own CTA
//                                        every CTA that loads into it              the warps that bring scales
//                                                                                  or strided operands
//   turn[group]   turn_arrivals          each math warp of the other group         math group (ping_pong only)
// and in clusters along k, for each math group:
//   sums_full[group]   sums_full_arrivals   one thread of the group (expect), the sums themselves   the group
//   sums_empty[group]  sums_empty_arrivals  each warp of this group in every CTA, after it has      the group, before it
//                                           read what this CTA sent                                 sends again
// clang-format on
// All start in phase 0. A first wait on `empty` or `sums_empty`, and group 0's first wait on `turn`, use the
// parity of the phase before, which counts as complete.
//
// Why ping-pong needs `turn` for correctness: a wait names a parity, not a pass. A group that is two passes
// over the ring ahead of the other would find an old phase of the right parity, and read a stage too early. A
// group hands over the turn once its last k-tile is issued, by which time all earlier full barriers have
// completed.
//
// Why a CTA may exit without a cluster barrier: the load thread's last act is to wait until every stage is
// empty. By then every signal that peers owe this CTA has come, and its math groups have waited for all bytes
// that peers send to it. In a cluster along k they also wait until every peer has read what this CTA sent.
#pragma once

#include <sluice/spec/timeline.h>
#include <sluice/device/pipeline.cuh>

namespace sluice {

inline constexpr u32 kFreshBarrier = 1;  // flips the parity: the first pass over the ring need not wait

/// The tile that is loaded now. The loading warp finds the first one before the CTA meets, while other warps
/// initialise barriers (docs/findings/first-load.md).
template <class Machine>
struct LoadWalk {
  Machine& machine;
  TileCursor<Machine> tiles;
  Tile tile;  // if `more`
  bool more = false;

  SLUICE_DEVICE explicit LoadWalk(Machine& m) : machine(m), tiles(m) {
    if (machine.is_load_warp()) begin();
  }
  SLUICE_DEVICE void advance() {
    tiles.advance();
    begin();
  }

 private:
  SLUICE_DEVICE void begin() {
    more = tiles.valid();
    if (!more) return;
    tile = tiles.tile();
    machine.begin_loads(tile);
  }
};

/// Loads the problem's B: weights, which no other launch writes. With swapped operands they are the tile's
/// rows.
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

/// Loads the weights of the CTA's first stages, which are empty: weights may be read before the PDL wait.
/// Returns how many stages it has loaded.
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
  // Beside warps that bring an operand, a stage could be emptied before this thread waits for it.
  const bool alone = !loads_strided(machine.config());
  if (alone && machine.config().overlap.wait == Wait::weights_first)
    early = load_weights_early(machine, walk);
  if (early > 0) machine.mark(Moment::loads_issued);
  machine.prefetch();
  machine.wait_prerequisites();
  machine.mark(Moment::wait_returned);
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
  machine.mark(Moment::last_load);
  if (machine.config().overlap.trigger == Trigger::after_loads) machine.launch_dependents();
  machine.hand_off();
  for (int stage = 0; stage < stages; ++stage) {
    machine.wait_empty(ring.stage, ring.phase ^ kFreshBarrier);
    ring.advance(stages);
  }
  machine.write_marks();
}

/// Brings block scales beside their stage. They are fetched before the stage is free, so that their trip from
/// HBM is hidden like that of the operands.
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

/// Brings operands that TMA cannot address, while the load thread brings the other one. The first part of a
/// k-tile is read before the stage is free.
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

/// Multiplies one tile into the machine's accumulators with one k-tile in flight: a stage is released once
/// the next k-tile has been issued. On return the last k-tile may be in flight and its stage held;
/// finish_tile() ends both. Ping-pong hands over the turn in between.
template <class Machine>
SLUICE_DEVICE void multiply_tile(Machine& machine, RingPosition& ring, int k_tiles) {
  const int stages = machine.config().stages;
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    machine.wait_full(ring.stage, ring.phase);
    machine.mark_stage(k_tiles);
    machine.issue_mma(0, ring.stage, /*fresh=*/k_tile == 0);
    if (k_tile != 0) {
      machine.wait_mma_but_newest();
      machine.release_stage(ring.previous(stages));
    }
    ring.advance(stages);
  }
}

/// multiply_tile() with promotion: each k-tile's products go into partial sums, pass by pass, and from there
/// into the final sums. While one math warpgroup adds, the tensor core works for the other. No product is in
/// flight when a k-tile ends: ptxas serialises products whose sums are read in a later pass of the loop
/// (docs/findings/promotion.md).
template <class Machine>
SLUICE_DEVICE void multiply_tile_promoted(Machine& machine, RingPosition& ring, int k_tiles) {
  const int last_unit = units(machine.config()) - 1;
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    machine.wait_full(ring.stage, ring.phase);
    machine.mark_stage(k_tiles);
    machine.read_scales(ring.stage);
#pragma unroll
    for (int unit = 0; unit <= last_unit; ++unit) {
      machine.issue_mma(unit, ring.stage, /*fresh=*/true);
      machine.wait_mma();
      if (unit == last_unit) machine.release_stage(ring.stage);
      machine.promote(unit);
    }
    ring.advance(machine.config().stages);
  }
}

/// Ends the products and the stage that multiply_tile() left open.
template <class Machine>
SLUICE_DEVICE void finish_tile(Machine& machine, const RingPosition& ring, int k_tiles) {
  machine.wait_mma();
  if (k_tiles > 0 && !machine.config().promotes)
    machine.release_stage(ring.previous(machine.config().stages));
}

/// The exchange in a cluster along k, where each CTA has summed a slice of the tile's k-tiles. Each CTA sends
/// every CTA (itself included) the sums of that CTA's columns. It adds up the sums that it receives, in the
/// order of k, and so ends with whole sums for its own columns.
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

/// Combines split-K slices. The peers of a shared tile write their sums to slots of their own, then count
/// themselves; nobody waits. The counter tells the last peer that it is the last, and wraps back to zero by
/// that. The last peer adds up all slots in the order of k, so the result has the same bits whoever is last.
/// Returns true for the last peer: its sums are those of the whole tile. With Combine::separate no peer is
/// the last; the next kernel adds up the slots (kernels/sum_parts.cuh).
template <class Machine>
SLUICE_DEVICE bool combine_tile(Machine& machine, const Tile& tile) {
  machine.write_partial(tile);
  if (machine.config().combine == Combine::separate) return false;
  machine.publish_partial();
  if (!machine.is_last_arriver(tile)) return false;
  machine.sum_partials(tile);
  return true;
}

/// Stores one chunk. A buffer is filled again only when the copy engine has read it; that wait comes as late
/// as possible.
template <class Machine>
SLUICE_DEVICE void store_chunk(Machine& machine, const Tile& tile, int wave, int column, int& buffer) {
  machine.wait_store_buffer();
  machine.write_chunk(buffer, tile, wave, column);
  machine.publish_chunk();
  machine.issue_store(buffer, tile, wave, column);
  buffer ^= 1;
}

/// Epilogue of one tile: columns leave chunk by chunk through two private buffers. `buffer` lives across
/// tiles: after an odd number of chunks the next tile starts with the other one. Loops of heavy epilogues
/// stay rolled. Unrolled, their code would be repeated for each chunk, spill, and compile for seconds
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
  machine.claim_marks();
  if (uses_workspace(machine.config())) machine.enter_workspace();
  for (TileCursor tiles(machine); tiles.valid(); tiles.advance()) {
    const Tile tile = tiles.tile();
    if (ping_pong && tiles.ordinal % kMathGroups != group) {
      ring.skip(tile.k_tiles, machine.config().stages);
      continue;
    }
    const Tile own = own_part(machine.config(), tile, machine.cta_rank());
    machine.stage_vectors(own);
    if (ping_pong) machine.wait_turn(turn_phase);
    machine.begin_tile(tile.k_tiles);
    if (machine.config().promotes)
      multiply_tile_promoted(machine, ring, tile.k_tiles);
    else
      multiply_tile(machine, ring, tile.k_tiles);
    if (ping_pong) machine.pass_turn();
    finish_tile(machine, ring, tile.k_tiles);
    // A group without rows of D has nothing to send, and neither have its peers' groups.
    if (machine.config().cluster.k > 1 && machine.has_rows(tile))
      exchange_sums(machine, tile, exchange_phase);
    const bool stores_own = !uses_workspace(machine.config());  // whole sums, or a slice added to D
    if (stores_own || tile.sharing.peers == 1 || combine_tile(machine, own)) store_tile(machine, own, buffer);
    machine.end_tile();
    turn_phase ^= 1;
  }
  machine.finish_stores();
  if (uses_workspace(machine.config())) machine.leave_workspace();
  if (machine.config().cluster.k > 1) machine.wait_sums_empty(exchange_phase ^ kFreshBarrier);
  machine.mark(Moment::exit);
  machine.write_marks();
}

template <class Machine>
SLUICE_DEVICE void run_roles(Machine& machine) {
  machine.start();
  if (machine.is_load_role()) {
    LoadWalk<Machine> walk(machine);
    machine.meet();
    machine.enter_load_role();
    if (machine.is_load_thread())
      load_role(machine, walk);
    else if (machine.is_scale_warp())
      scale_role(machine);
    else if (machine.is_strided_warp())
      strided_role(machine);
  } else {
    machine.meet();
    machine.enter_math_role();
    machine.wait_prerequisites();
    machine.read_tensor_scales();
    math_role(machine);
  }
}

}  // namespace sluice
