// SPDX-License-Identifier: Apache-2.0
// Planted bugs in splits along k: shared tiles, and the exchange of partial sums in a cluster along k (see
// mutants.h).
#pragma once

#include <sluice/twin/record.h>

namespace sluice::twin::mutants {

// ---- shared tiles ----
struct CountsBeforeWriting : Machine {
  using Machine::Machine;
  void write_partial(const Tile&) {}
  void publish_partial() {}
  bool is_last_arriver(const Tile& tile) {
    count_arrival(tile, tile.sharing.peers - 1);
    Machine::write_partial(tile);
    group_sync();
    return guarded_ = true;
  }
};
/// Bug: the elected thread counts its group before all warps have written their partial sums.
struct NoMeetingBeforeCounting : Machine {
  using Machine::Machine;
  void publish_partial() {}
};
/// Bug: warps do not wait for the result of the count, so each may use an old one.
struct NoMeetingAfterCounting : Machine {
  using Machine::Machine;
  bool is_last_arriver(const Tile& tile) {
    count_arrival(tile, tile.sharing.peers - 1);
    return guarded_ = true;
  }
};
template <int kMore>
struct WrongBound : Machine {
  using Machine::Machine;
  bool is_last_arriver(const Tile& tile) {
    count_arrival(tile, tile.sharing.peers - 1 + kMore);
    group_sync();
    return guarded_ = true;
  }
};
/// Bug: the first peer resets the counter before it counts.
struct ResetsBeforeCounting : Machine {
  using Machine::Machine;
  bool is_last_arriver(const Tile& tile) {
    if (tile.sharing.rank == 0 && is_elected()) record({.kind = StepKind::reset_counter, .tile = tile});
    return Machine::is_last_arriver(tile);
  }
};
/// Bug: every peer resets the counter after counting, not only the last one.
struct ResetsAfterCounting : Machine {
  using Machine::Machine;
  bool is_last_arriver(const Tile& tile) {
    count_arrival(tile, tile.sharing.peers - 1);
    if (is_elected()) record({.kind = StepKind::reset_counter, .tile = tile});
    group_sync();
    return guarded_ = true;
  }
};
/// Bug: one peer believes to be the last without counting.
struct CountsOneTooFew : Machine {
  using Machine::Machine;
  bool is_last_arriver(const Tile& tile) {
    if (tile.sharing.rank != 0) return Machine::is_last_arriver(tile);
    group_sync();
    return guarded_ = true;
  }
};
/// Bug: the last peer counts once more, after its count has reset the counter.
struct LastCountsAgain : Machine {
  using Machine::Machine;
  void sum_partials(const Tile& tile) {
    Machine::sum_partials(tile);
    count_arrival(tile, tile.sharing.peers - 1);
  }
};
struct SumsBeforeTheElection : Machine {
  using Machine::Machine;
  void write_partial(const Tile& tile) { Machine::write_partial(shared = tile); }
  void publish_partial() {
    Machine::publish_partial();
    Machine::sum_partials(shared);
  }
  void sum_partials(const Tile&) {}
  Tile shared;
};
struct LeavesOutTheLastSlot : Machine {
  using Machine::Machine;
  void sum_partials(const Tile& tile) {
    Tile fewer = tile;
    --fewer.sharing.peers;
    Machine::sum_partials(fewer);
  }
};
struct SumsNothing : Machine {
  using Machine::Machine;
  void sum_partials(const Tile&) {}
};
struct StoresWithoutWinning : Machine {
  using Machine::Machine;
  bool is_last_arriver(const Tile& tile) {
    Machine::is_last_arriver(tile);
    guarded_ = false;
    return true;
  }
};
struct NobodyStores : Machine {
  using Machine::Machine;
  bool is_last_arriver(const Tile& tile) {
    Machine::is_last_arriver(tile);
    return guarded_ = false;
  }
};
/// Bug: all peers write the same slot.
struct SameSlotForAll : Machine {
  using Machine::Machine;
  void write_partial(const Tile& tile) {
    Tile first = tile;
    first.sharing.rank = 0;
    Machine::write_partial(first);
  }
};
struct SlotsOfTheNextTile : Machine {
  using Machine::Machine;
  void write_partial(const Tile& tile) {
    Tile next = tile;
    // The tile's number, so that its slots overlap those of the next tile.
    next.sharing.slot = tile.sharing.counter;
    Machine::write_partial(next);
  }
};
struct OneCounterForAllTiles : Machine {
  using Machine::Machine;
  bool is_last_arriver(const Tile& tile) {
    Tile other = tile;
    other.sharing.counter = 0;
    return Machine::is_last_arriver(other);
  }
};
/// Bug: loads from the tile's first k-tile instead of from the slice's.
struct SlicesFromTheFirstKTile : Machine {
  using Machine::Machine;
  void load_a(int stage, int k_tile) { Machine::load_a(stage, k_tile - load_tile_.first_k_tile); }
  void load_b(int stage, int k_tile) { Machine::load_b(stage, k_tile - load_tile_.first_k_tile); }
};
// ---- the exchange ----
struct NoWaitForSumsEmpty : Machine {
  using Machine::Machine;
  void wait_sums_empty(u32 parity) {
    if (leaving) Machine::wait_sums_empty(parity);
  }
  void finish_stores() {
    Machine::finish_stores();
    leaving = true;
  }
  bool leaving = false;
};
struct LeavesBeforeSumsAreRead : Machine {
  using Machine::Machine;
  void wait_sums_empty(u32 parity) {
    if (!leaving) Machine::wait_sums_empty(parity);
  }
  void finish_stores() {
    Machine::finish_stores();
    leaving = true;
  }
  bool leaving = false;
};
struct NoWaitForSums : Machine {
  using Machine::Machine;
  void wait_sums_full(u32) {}
};
struct WrongSumsParity : Machine {
  using Machine::Machine;
  void wait_sums_full(u32 parity) { Machine::wait_sums_full(parity ^ 1); }
};
struct ReleasesSumsBeforeReading : Machine {
  using Machine::Machine;
  void wait_sums_full(u32 parity) {
    Machine::wait_sums_full(parity);
    Machine::release_sums();
  }
  void release_sums() {}
};
struct SendsToAllButOne : Machine {
  using Machine::Machine;
  void send_sums(const Tile& tile, int pass) {
    Machine::send_sums(tile, pass);
    steps_.pop_back();
  }
};
struct SendsOnlyToOthers : Machine {
  using Machine::Machine;
  void send_sums(const Tile& tile, int pass) {
    Machine::send_sums(tile, pass);
    steps_.erase(steps_.end() - scenario_.ctas() + cta_rank());
  }
};
struct SendsTwice : Machine {
  using Machine::Machine;
  void send_sums(const Tile& tile, int pass) {
    Machine::send_sums(tile, pass);
    send_sums_to(0, tile, pass);
  }
};
struct SendsAnotherPass : Machine {
  using Machine::Machine;
  void send_sums(const Tile& tile, int pass) { Machine::send_sums(tile, pass ^ 1); }
};
struct ReleasesSumsToAllButOne : Machine {
  using Machine::Machine;
  void release_sums() {
    Machine::release_sums();
    steps_.pop_back();
  }
};
struct ReleasesSumsTwice : Machine {
  using Machine::Machine;
  void release_sums() {
    Machine::release_sums();
    release_sums_to(0);
  }
};
template <int kMore>
struct WrongExpectedSums : Machine {
  using Machine::Machine;
  void send_sums(const Tile& tile, int pass) {
    Machine::send_sums(tile, pass);
    StepList::iterator step = steps_.end();
    while (step != steps_.begin() && (--step)->kind != StepKind::expect_sums) continue;
    step->count += kMore;
  }
};
/// Bug: also expects the partial sums of warps whose rows are outside of the matrix.
struct ExpectsSumsOfRowsOutside : Machine {
  using Machine::Machine;
  void send_sums(const Tile& tile, int pass) {
    record({.kind = StepKind::expect_sums, .count = exchange_buffer_bytes(config())});
    for (int cta = 0; cta < scenario_.ctas(); ++cta) send_sums_to(cta, tile, pass);
  }
};
struct NoReceive : Machine {
  using Machine::Machine;
  void receive_sums(const Tile&, int) {}
};
/// Bug: stores all columns of the tile, although peers store the others.
struct StoresAllColumns : Machine {
  using Machine::Machine;
  void store_direct(const Tile& tile) {
    for (int cta = 0; cta < scenario_.ctas(); ++cta) {
      Tile part = tile;
      part.n_offset += (cta - cta_rank()) * own_columns(config());
      Machine::store_direct(part);
    }
  }
};
/// Bug: releases stages to all CTAs of the cluster, as if they multicast into it.
struct ReleasesStagesToPeers : Machine {
  using Machine::Machine;
  void release_stage(int stage) {
    for (int cta = 0; cta < scenario_.ctas(); ++cta)
      record({.kind = StepKind::arrive_empty, .stage = stage, .count = arrivals(), .target = cta});
  }
};
/// Bug: every CTA of the cluster takes the first slice of k.
struct AllTakeTheFirstPart : Machine {
  using Machine::Machine;
  int cta_rank() const { return 0; }
};

}  // namespace sluice::twin::mutants
