// SPDX-License-Identifier: Apache-2.0
// The dense GEMM: persistent, warp-specialised, ping-pong or cooperative. This file is what the roles do,
// step by step, and names no instruction. Other parts of the protocol: the walk over tiles and positions in
// the ring (device/pipeline.cuh), arrival counts (spec/smem_layout.h), and start() and meet() of
// device/machine.cuh, which initialise the barriers, let the CTA or cluster meet and trigger at the start.
// What each step does on the GPU is there too. The host twin (sluice/twin/) gives the steps a simulated
// meaning, so that this source and the first two are explored for deadlocks and races without a GPU; start()
// and meet() are left out of that.
//
// clang-format off
// Roles (384 threads; kThreads)
//   warpgroup 0    load   one thread fills the stages with TMA
//                  scales two more warps bring block scales, if there are any, beside each stage; the rest leave at once
//   warpgroups 1,2 math   WGMMA from the stages into registers, then the epilogue and the store of their tile
//                         ping_pong: each takes every second tile, so that one multiplies while the other stores
//                         cooperative: both take every tile, half of its rows each
// In start() warp 1 initialises all barriers; meanwhile the loading warp finds its first tile; nobody uses a barrier
// before meet().
//
// Barriers (counts: spec/smem_layout.h)  who arrives                               who waits
//   full[stage]   full_arrivals          load thread (expect), TMA (the bytes),    math groups that read the stage
//                                        each warp that brings block scales
//   empty[stage]  empty_arrivals         each math warp that read the stage, at    load thread, and in its own CTA
//                                        every CTA that loads into it              the warps that bring scales
//   turn[group]   turn_arrivals          each math warp of the other group         math group (ping_pong only)
// and in clusters along k, for each math group:
//   sums_full[group]   sums_full_arrivals   one thread of the group (expect), the sums themselves   the group
//   sums_empty[group]  sums_empty_arrivals  each warp of this group in every CTA, after it has      the group, before it
//                                           read what this CTA sent                                 sends again
// clang-format on
// All start in phase 0. A first wait on `empty`, and group 0's first wait on `turn`, use the parity of the
// phase before, which counts as complete.
//
// Why ping-pong needs `turn` even for correctness: a wait names a parity, not a pass. A group that ran ahead
// of the other by two passes over the ring would find an old phase of the right parity and read a stage too
// early. The turn is handed over when the last k-tile was issued, that is, after all full barriers before it
// were seen complete.
//
// Why a CTA may leave without a cluster barrier: the load thread's last act is to wait until every stage is
// empty, so every signal that peers owe this CTA has come; and its math groups waited for all bytes that
// peers send to it. In a cluster along k its math groups wait besides until all have read what it sent.
#pragma once

#include <sluice/spec/timeline.h>
#include <sluice/device/pipeline.cuh>

namespace sluice {

inline constexpr u32 kFreshBarrier = 1;  // flips the parity: the first pass over the ring need not wait

/// The tile that is loaded now. The first one is found before the CTA meets, by the warp that loads alone:
/// others initialise barriers meanwhile (docs/findings/first-load.md).
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

/// The problem's B: weights, of which no other launch is the author. Of swapped operands it is the tile's
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

/// The weights' part of the first stages, of the CTA's first tile: the stages are empty, and weights may be
/// read before the launches that this one depends on have ended. How many.
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
  int early = 0;  // stages that have their part of the weights
  if (machine.config().overlap.wait == Wait::weights_first) early = load_weights_early(machine, walk);
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

/// Block scales come beside the stage that they belong to. They are fetched before the stage is free, so that
/// what hides the products' way from HBM hides theirs.
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

/// Multiplies one tile into the machine's accumulators. Keeps one k-tile in flight: a stage is released when
/// the k-tile after it has been issued. On return the last k-tile may still be in flight and its stage held
/// (`finish_tile` ends both), so that ping-pong can hand over the turn in between.
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

/// The same with promotion: the products of every k-tile go into partial sums, unit by unit, and from there
/// into the final ones. While one math warpgroup adds, the tensor core works for the other. Nothing is in
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

/// Ends what multiply_tile left open.
template <class Machine>
SLUICE_DEVICE void finish_tile(Machine& machine, const RingPosition& ring, int k_tiles) {
  machine.wait_mma();
  if (k_tiles > 0 && !machine.config().promotes)
    machine.release_stage(ring.previous(machine.config().stages));
}

/// The CTAs of a cluster along k have summed a part of the tile's k-tiles each. Every one sends to every CTA
/// (itself too) the sums of that CTA's columns, and adds up what it gets, in the order of k: so each ends
/// with whole sums for its own columns.
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

/// The peers of a shared tile each write their sums to their own slot, and then count themselves. Nobody
/// waits: the counter tells the last one that it is the last, and is zero again by that (it wraps at the
/// number of peers). The last one adds up all slots in the order of k, so that the result has the same bits
/// whoever it is. True for the last one: its sums are those of the whole tile. With Combine::separate nobody
/// is: the slots are left to the next kernel (kernels/sum_parts.cuh).
template <class Machine>
SLUICE_DEVICE bool combine_tile(Machine& machine, const Tile& tile) {
  machine.write_partial(tile);
  if (machine.config().combine == Combine::separate) return false;
  machine.publish_partial();
  if (!machine.is_last_arriver(tile)) return false;
  machine.sum_partials(tile);
  return true;
}

/// A buffer is filled again only when the copy engine has read it, and that wait comes as late as it can.
template <class Machine>
SLUICE_DEVICE void store_chunk(Machine& machine, const Tile& tile, int wave, int column, int& buffer) {
  machine.wait_store_buffer();
  machine.write_chunk(buffer, tile, wave, column);
  machine.publish_chunk();
  machine.issue_store(buffer, tile, wave, column);
  buffer ^= 1;
}

/// Epilogue of one tile: columns chunk by chunk through two private buffers. `buffer` lives across tiles:
/// with an odd number of chunks the next tile must start with the other one. Heavy epilogues stay rolled, or
/// their code would stand there once for each chunk, spill, and compile for seconds
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
    // A group without rows of D has nothing to send; its peers' groups have none either.
    if (machine.config().cluster.k > 1 && machine.has_rows(tile))
      exchange_sums(machine, tile, exchange_phase);
    const bool stores_own = !uses_workspace(machine.config());  // all of the sums, or a part added to D
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
  } else {
    machine.meet();
    machine.enter_math_role();
    machine.wait_prerequisites();
    machine.read_tensor_scales();
    math_role(machine);
  }
}

}  // namespace sluice
