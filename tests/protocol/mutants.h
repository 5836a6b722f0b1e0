// SPDX-License-Identifier: Apache-2.0
// Planted bugs: machines that omit, repeat or misplace one step of the protocol. kernels/gemm.cuh runs on
// them, so each is like the kernel with one wrong line.
#pragma once

#include <sluice/twin/record.h>

namespace sluice::twin::mutants {

// ---- the ring ----
struct NoWaitEmpty : Machine {
  using Machine::Machine;
  void wait_empty(int, u32) {}
};
/// Bug: the first pass over the ring waits for a phase that never completes.
struct NoFreshParity : Machine {
  using Machine::Machine;
  void wait_empty(int stage, u32 parity) { Machine::wait_empty(stage, parity ^ 1); }
};
struct NoWaitFull : Machine {
  using Machine::Machine;
  void wait_full(int, u32) {}
};
struct WrongFullParity : Machine {
  using Machine::Machine;
  void wait_full(int stage, u32 parity) { Machine::wait_full(stage, parity ^ 1); }
};
/// Bug: releases a stage without waiting for the WGMMAs that read it.
struct ReleaseBeforeRetired : Machine {
  using Machine::Machine;
  void wait_mma_but_newest() {}
};
/// Bug: releases the stage that the newest WGMMA reads, instead of the one before.
struct ReleaseNewest : Machine {
  using Machine::Machine;
  void issue_mma(int unit, int stage, bool fresh) { Machine::issue_mma(unit, newest = stage, fresh); }
  void release_stage(int) { Machine::release_stage(newest); }
  int newest = 0;
};
struct ReleaseOneTooFew : Machine {
  using Machine::Machine;
  void release_stage(int stage) { release(stage, arrivals() - 1); }
};
struct ReleaseOneTooMany : Machine {
  using Machine::Machine;
  void release_stage(int stage) { release(stage, arrivals() + 1); }
};
struct ReleaseTwice : Machine {
  using Machine::Machine;
  void release_stage(int stage) {
    Machine::release_stage(stage);
    Machine::release_stage(stage);
  }
};
/// Bug: releases a stage to its own CTA only, not to the CTAs that multicast into it.
struct ReleaseOwnCtaOnly : Machine {
  using Machine::Machine;
  void release_stage(int stage) {
    record({.kind = StepKind::arrive_empty, .stage = stage, .count = arrivals(), .target = cta_rank()});
  }
};
/// Bug: signals its own CTA twice, once for the cluster's row and once for its column.
struct ReleaseOwnCtaTwice : Machine {
  using Machine::Machine;
  void release_stage(int stage) {
    Machine::release_stage(stage);
    record({.kind = StepKind::arrive_empty, .stage = stage, .count = arrivals(), .target = cta_rank()});
  }
};
template <int kMore>
struct WrongExpectedBytes : Machine {
  using Machine::Machine;
  void expect_stage(int stage) {
    Machine::expect_stage(stage);
    steps_.back().count += kMore;
  }
};
struct ExpectsTooManyToCount : Machine {
  using Machine::Machine;
  void expect_stage(int stage) { record({.kind = StepKind::expect, .stage = stage, .count = 1 << 20}); }
};
struct ExpectsTwice : Machine {
  using Machine::Machine;
  void expect_stage(int stage) {
    Machine::expect_stage(stage);
    Machine::expect_stage(stage);
  }
};
/// Bug: expects the bytes of rows outside the matrix too, which TMA does not load.
struct ExpectsRowsOutside : Machine {
  using Machine::Machine;
  void expect_stage(int stage) {
    record({.kind = StepKind::expect, .stage = stage, .count = stage_bytes(config())});
  }
};

// ---- turns ----
struct NoTurnWait : Machine {
  using Machine::Machine;
  void wait_turn(u32) {}
};
struct TurnNeverPassed : Machine {
  using Machine::Machine;
  void pass_turn() {}
};
struct TurnPassedTwice : Machine {
  using Machine::Machine;
  void pass_turn() {
    Machine::pass_turn();
    Machine::pass_turn();
  }
};
/// Bug: passes the turn before the first k-tile instead of after the last.
struct TurnPassedAtOnce : Machine {
  using Machine::Machine;
  void wait_turn(u32 parity) {
    Machine::wait_turn(parity);
    Machine::pass_turn();
  }
  void pass_turn() {}
};
/// Bug: both groups start without waiting for their first turn.
struct BothGroupsStart : Machine {
  using Machine::Machine;
  void wait_turn(u32 parity) { Machine::wait_turn(math_group() == 1 ? parity ^ 1 : parity); }
};

// ---- tiles and sums ----
template <int kMore>
struct WrongStride : Machine {
  using Machine::Machine;
  int cluster_count() const { return Machine::cluster_count() + kMore; }
};
struct LoadsNextKTile : Machine {
  using Machine::Machine;
  void load_b(int stage, int k_tile) { Machine::load_b(stage, (k_tile + 1) % max(load_tile_.k_tiles, 1)); }
};
struct LoadsAnotherTile : Machine {
  using Machine::Machine;
  void load_a(int stage, int k_tile) {
    load_tile_.m_offset ^= config().tile.m;
    Machine::load_a(stage, k_tile);
    load_tile_.m_offset ^= config().tile.m;
  }
};
struct NeverFresh : Machine {
  using Machine::Machine;
  void issue_mma(int unit, int stage, bool) { Machine::issue_mma(unit, stage, false); }
};
struct NoWaitMma : Machine {
  using Machine::Machine;
  void wait_mma() {}
};
struct NoPromotion : Machine {
  using Machine::Machine;
  void promote(int, int) {}
};
/// Bug: adds the second unit's partial sums to the first unit's accumulators.
struct PromotesFirstUnitOnly : Machine {
  using Machine::Machine;
  void promote(int, int stage) { Machine::promote(0, stage); }
};

// ---- block scales ----
struct ScalesDoNotWaitEmpty : Machine {
  using Machine::Machine;
  void wait_empty(int stage, u32 parity) {
    if (!is_scale_warp()) Machine::wait_empty(stage, parity);
  }
};
struct ScalesPublishedBeforeWritten : Machine {
  using Machine::Machine;
  void write_scales(int, int k_tile) { written = k_tile; }
  void publish_scales(int stage) {
    Machine::publish_scales(stage);
    Machine::write_scales(stage, written);
  }
  int written = 0;
};
struct ScalesNeverPublished : Machine {
  using Machine::Machine;
  void publish_scales(int) {}
};
/// Bug: one warp that writes scales does not arrive.
struct ScalesPublishedByOneWarp : Machine {
  using Machine::Machine;
  void publish_scales(int stage) {
    record({.kind = StepKind::arrive_full, .stage = stage, .count = kScaleWarps - 1});
  }
};
struct ScalesOfNextKTile : Machine {
  using Machine::Machine;
  void write_scales(int stage, int k_tile) { Machine::write_scales(stage, k_tile + 1); }
};
/// Bug: reads block scales once per tile, as if they were per-tensor scales.
struct ScalesReadOnce : Machine {
  using Machine::Machine;
  void begin_tile(int k_tiles) {
    Machine::begin_tile(k_tiles);
    read = false;
  }
  void read_scales(int stage) {
    if (!read) Machine::read_scales(stage);
    read = true;
  }
  bool read = false;
};
/// Bug: reads scales before it has waited for the stage.
struct ScalesReadTooEarly : Machine {
  using Machine::Machine;
  void wait_full(int stage, u32 parity) {
    Machine::read_scales(stage);
    Machine::wait_full(stage, parity);
  }
  void read_scales(int) {}
};

/// Bug: releases the stage before the sums are promoted, as it is right where all scales are in registers.
struct ColumnsReadAfterRelease : Machine {
  using Machine::Machine;
  void promote(int unit, int stage) {
    if (unit + 1 == units(config())) Machine::release_stage(stage);
    Machine::promote(unit, stage);
  }
  void release_stage(int) {}
};

// ---- scale vectors ----
struct NoWaitVectors : Machine {
  using Machine::Machine;
  void wait_vectors() {}
};
/// Bug: no barrier between copying the vectors and reading them, so a warp waits only for its own copies.
struct DirectStoreWithoutSyncBefore : Machine {
  using Machine::Machine;
  void store_direct(const Tile& tile) {
    record({.kind = StepKind::store_direct, .tile = tile});
    group_sync();
  }
};
/// Bug: no barrier after the wait for the store buffer, so a warp waits only for its own copies.
struct NoSyncForBuffer : Machine {
  using Machine::Machine;
  void wait_store_buffer() {
    if (is_elected()) record({.kind = StepKind::wait_store, .count = kStoreBuffers - 1});
  }
};
/// Bug: each CTA of a cluster loads the scale vectors of the first CTA.
struct StagesVectorsOfWholeTile : Machine {
  using Machine::Machine;
  void stage_vectors(const Tile& own) {
    Tile whole = own;
    whole.n_offset -= whole.n_offset % config().tile.n;
    Machine::stage_vectors(whole);
  }
};
struct StagesVectorsOnce : Machine {
  using Machine::Machine;
  void stage_vectors(const Tile& own) {
    if (!staged) Machine::stage_vectors(own);
    staged = true;
  }
  bool staged = false;
};
/// Bug: a peer that is not the last arriver goes on while copies of its vectors are in flight.
struct NotLastForgetsVectors : Machine {
  using Machine::Machine;
  void write_partial(const Tile& tile) { record({.kind = StepKind::write_partial, .tile = tile}); }
};
/// Bug: loads the next tile's vectors while other warps of the group still read the present ones.
struct DirectStoreWithoutSyncAfter : Machine {
  using Machine::Machine;
  void store_direct(const Tile& tile) {
    group_sync();
    record({.kind = StepKind::store_direct, .tile = tile});
  }
};

// ---- stores ----
/// Bug: starts every tile with buffer 0, which is right only after an even number of chunks.
struct BufferRestarts : Machine {
  using Machine::Machine;
  void begin_tile(int k_tiles) {
    Machine::begin_tile(k_tiles);
    chunk = 0;
  }
  void write_chunk(int, const Tile& tile, int wave, int column) {
    Machine::write_chunk(chunk % kStoreBuffers, tile, wave, column);
  }
  void issue_store(int, const Tile& tile, int wave, int column) {
    Machine::issue_store(chunk++ % kStoreBuffers, tile, wave, column);
  }
  int chunk = 0;
};
struct NoWaitForBuffer : Machine {
  using Machine::Machine;
  void wait_store_buffer() {}
};
/// Bug: allows as many stores in flight as there are buffers, so none of the buffers is free.
struct WaitsForOneTooFew : Machine {
  using Machine::Machine;
  void wait_store_buffer() {
    if (is_elected()) record({.kind = StepKind::wait_store, .count = kStoreBuffers});
    group_sync();
  }
};
/// Bug: no barrier after the wait, so only the elected warp knows that the buffer is free.
struct NoSyncAfterBufferWait : Machine {
  using Machine::Machine;
  void wait_store_buffer() {
    if (is_elected()) record({.kind = StepKind::wait_store, .count = kStoreBuffers - 1});
  }
};
struct NoFence : Machine {
  using Machine::Machine;
  void publish_chunk() { group_sync(); }
};
/// Bug: each warp has fenced its own writes, but the elected warp stores without waiting for the others.
struct NoSyncBeforeStore : Machine {
  using Machine::Machine;
  void publish_chunk() { record({.kind = StepKind::publish}); }
};
struct StoresOtherBuffer : Machine {
  using Machine::Machine;
  void issue_store(int buffer, const Tile& tile, int wave, int column) {
    Machine::issue_store(buffer ^ 1, tile, wave, column);
  }
};
struct StoresTwice : Machine {
  using Machine::Machine;
  void issue_store(int buffer, const Tile& tile, int wave, int column) {
    Machine::issue_store(buffer, tile, wave, column);
    Machine::issue_store(buffer, tile, wave, column);
  }
};
struct NoFinishStores : Machine {
  using Machine::Machine;
  void finish_stores() {}
};
/// Bug: omits the last column of chunks.
struct NoLastColumn : Machine {
  using Machine::Machine;
  void issue_store(int buffer, const Tile& tile, int wave, int column) {
    if (column + store_columns(config()) < config().tile.n) Machine::issue_store(buffer, tile, wave, column);
  }
};

}  // namespace sluice::twin::mutants
