// SPDX-License-Identifier: Apache-2.0
// A broken protocol rule: which one, where, and how to see it again. docs/host-twin.md explains each kind.
#pragma once

#include <optional>
#include <string>

#include <sluice/spec/base.h>

namespace sluice::twin {

enum class FailureKind : u8 {
  deadlock,                  // somebody waits, nobody can move
  stage_overwritten,         // TMA writes a stage that a product may still read
  stage_unready,             // a product reads a stage that TMA still writes, or that another load took over
  wrong_bytes,               // the stage holds another tile or k-tile than the product is for
  over_arrival,              // more arrivals than the phase expects
  lost_signal,               // an arrival or bytes fell into another phase than the one they are for
  tx_overflow,               // more pending bytes than an mbarrier counts
  peer_gone,                 // a signal or bytes for a CTA that has left, or a CTA that leaves too early
  store_buffer_overwritten,  // written while TMA reads it
  store_unpublished,         // TMA reads what no fence has published
  vectors_unready,           // stored with scale vectors that are not all there, or of another tile
  accumulator_in_flight,     // sums read before the products were waited for
  accumulator_wrong,         // sums stored that are not those of all k-tiles, once each
  tile_twice,                //
  tile_missing,              //
  wrong_update,              // a store where the product is added to D, or the other way round
  unread_stage,              // a stage was filled and not read, or a barrier left half way
  exchange_overwritten,      // sums sent to where the last ones are not read yet
  exchange_unready,          // sums read that have not all come
  partial_unready,           // a slot is read whose sums are not known to be written
  wrong_election,            // not exactly one of a tile's peers was the last
  counter_left,              // a counter is not zero when a launch ends
  workspace_overlap,         // a slot or counter of two parts, or outside of the workspace
  workspace_unstamped,       // used by a group that has not entered it, or has left
  before_the_wait,           // depends on, or writes over, what an earlier launch may still use
  no_wait,                   // a CTA may leave before the launches before it have ended
  read_early,                // a launch reads what one in front of it may still write
  write_over_read,           // a launch writes what one in front of it may still read
  write_over_write,          // a launch writes what one in front of it may still write
  endless_role,              // a role that records steps without end
};
const char* name_of(FailureKind kind);

struct Failure {
  FailureKind kind{};
  std::string message;      // values and rule
  std::string trace;        // the last steps of the interleaving, oldest first
  std::string waiting;      // who waits for what
  std::optional<u64> seed;  // of the random schedule; none if the search was exhaustive or none was needed
};

/// All of it, for a person.
std::string describe(const Failure& failure);

}  // namespace sluice::twin
