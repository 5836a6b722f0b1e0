// SPDX-License-Identifier: Apache-2.0
// A broken protocol rule, the place, and how to see it again. docs/host-twin.md explains each kind.
#pragma once

#include <optional>
#include <string>

#include <sluice/spec/base.h>

namespace sluice::twin {

enum class FailureKind : u8 {
  deadlock,           // somebody waits, and nobody can move
  stage_overwritten,  // TMA writes a stage that a product may still read
  stage_unready,      // a product reads a stage that TMA still writes, or that another load took over
  wrong_bytes,        // the stage holds another tile or k-tile than the product needs
  wrong_boxes,        // a convolution's load or store is at other pixels, taps or channels than its tile's
  over_arrival,       // more arrivals than the phase expects
  lost_signal,        // an arrival or bytes fell into another phase than their own
  tx_overflow,        // more pending bytes than an mbarrier counts
  peer_gone,          // a signal or bytes for a CTA that has exited, or a CTA that exits too early
  store_buffer_overwritten,  // written while TMA reads it
  store_unpublished,         // TMA reads data that no fence has published
  vectors_unready,        // stored with scale vectors that have not all come, or that belong to another tile
  accumulator_in_flight,  // sums read before the products were waited for
  accumulator_wrong,      // stored sums that do not hold every k-tile once
  tile_twice,             //
  tile_missing,           //
  wrong_update,           // a store where the product is added to D, or the reverse
  unread_stage,           // a stage was filled and not read, or a barrier left half way
  exchange_overwritten,   // sums sent to a buffer whose last sums are not read yet
  exchange_unready,       // sums read that have not all come
  partial_unready,        // a slot is read before its sums are known to be written
  wrong_election,         // not exactly one of a tile's peers was the last
  counter_left,           // a counter is not zero when a launch ends
  workspace_overlap,      // a slot or counter used by two parts, or outside the workspace
  workspace_unstamped,    // used by a group that has not entered it, or has left
  before_the_wait,        // depends on, or overwrites, data that an earlier launch may still use
  no_wait,                // a CTA may exit before earlier launches have ended
  read_early,             // a launch reads data that an earlier one may still write
  write_over_read,        // a launch writes data that an earlier one may still read
  write_over_write,       // a launch writes data that an earlier one may still write
  endless_role,           // a role that records steps without end
};
const char* name_of(FailureKind kind);

struct Failure {
  FailureKind kind{};
  std::string message;      // values and rule
  std::string trace;        // the last steps of the interleaving, oldest first
  std::string waiting;      // each waiting agent and its barrier
  std::optional<u64> seed;  // seed of the random schedule; none if the search was exhaustive or unnecessary
};

/// The whole failure as text.
std::string describe(const Failure& failure);

}  // namespace sluice::twin
