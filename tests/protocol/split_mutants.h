// SPDX-License-Identifier: Apache-2.0
// Planted bugs in splits along k: shared tiles, and the exchange of sums in a cluster along k (see
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
/// The elected thread counts the group before all its warps have written.
struct NoMeetingBeforeCounting : Machine {
  using Machine::Machine;
  void publish_partial() {}
};
/// Warps do not wait for the answer, so each may use an old one.
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
/// The first peer zeroes the counter before counting.
struct ResetsBeforeCounting : Machine {
  using Machine::Machine;
  bool is_last_arriver(const Tile& tile) {
    if (tile.sharing.rank == 0 && is_elected()) record({.kind = StepKind::reset_counter, .tile = tile});
    return Machine::is_last_arriver(tile);
  }
};
/// Every peer zeroes the counter after counting, not only the last.
struct ResetsAfterCounting : Machine {
  using Machine::Machine;
  bool is_last_arriver(const Tile& tile) {
    count_arrival(tile, tile.sharing.peers - 1);
    if (is_elected()) record({.kind = StepKind::reset_counter, .tile = tile});
    group_sync();
    return guarded_ = true;
  }
};
/// Takes all peers but one for enough.
struct CountsOneTooFew : Machine {
  using Machine::Machine;
  bool is_last_arriver(const Tile& tile) {
    if (tile.sharing.rank != 0) return Machine::is_last_arriver(tile);
    group_sync();
    return guarded_ = true;
  }
};
/// The last peer counts again after its count zeroed the counter.
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
/// Uses one slot for all peers.
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
    next.sharing.slot = tile.sharing.counter;  // the tile's number: its slots overlap the next tile's
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
/// Loads as if every run began at the tile's first k-tile.
struct RunsFromTheFirstKTile : Machine {
  using Machine::Machine;
  void load_a(int stage, int k_tile) { Machine::load_a(stage, k_tile - load_tile_.first_k_tile); }
  void load_b(int stage, int k_tile) { Machine::load_b(stage, k_tile - load_tile_.first_k_tile); }
};
// ---- the owner stamp ----
struct NeverEnters : Machine {
  using Machine::Machine;
  void enter_workspace() {}
};
/// The other warps do not wait until the elected one has entered.
struct NoMeetingAfterEntering : Machine {
  using Machine::Machine;
  void enter_workspace() { stamp(StepKind::enter_workspace); }
};
struct NeverLeaves : Machine {
  using Machine::Machine;
  void leave_workspace() {}
};
/// The elected warp leaves without waiting for the others.
struct NoMeetingBeforeLeaving : Machine {
  using Machine::Machine;
  void leave_workspace() { stamp(StepKind::leave_workspace); }
};
/// Leaves after its first tile, as if it were the last.
struct LeavesAfterOneTile : Machine {
  using Machine::Machine;
  void end_tile() {
    Machine::end_tile();
    if (!left) Machine::leave_workspace();
    left = true;
  }
  void leave_workspace() {
    if (!left) Machine::leave_workspace();
  }
  bool left = false;
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
/// Expects sums of warps without rows of the matrix too.
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
/// Stores all columns, as if there were no peers.
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
/// Releases stages to all CTAs of the cluster, as if they multicast.
struct ReleasesStagesToPeers : Machine {
  using Machine::Machine;
  void release_stage(int stage) {
    for (int cta = 0; cta < scenario_.ctas(); ++cta)
      record({.kind = StepKind::arrive_empty, .stage = stage, .count = arrivals(), .target = cta});
  }
};
/// Every CTA takes the first slice of k.
struct AllTakeTheFirstPart : Machine {
  using Machine::Machine;
  int cta_rank() const { return 0; }
};

}  // namespace sluice::twin::mutants
