// SPDX-License-Identifier: Apache-2.0
// A broken protocol rule, where it was broken, and how to reproduce it. docs/host-twin.md explains each kind.
#pragma once

#include <optional>
#include <string>

#include <sluice/spec/base.h>

namespace sluice::twin {

enum class FailureKind : u8 {
  deadlock,           // an agent waits, and no agent can move
  stage_overwritten,  // TMA writes a stage that a product may still read
  stage_unready,      // a product reads a stage that TMA still writes, or that another load took over
  wrong_bytes,        // the stage holds a tile or k-tile other than the one the product needs
  wrong_boxes,        // a convolution's load or store has pixels, taps or channels that are not its tile's
  over_arrival,       // more arrivals than the phase expects
  lost_signal,        // an arrival or bytes were counted in the wrong phase
  tx_overflow,        // more pending bytes than an mbarrier counts
  peer_gone,          // a signal or bytes for a CTA that has exited, or a CTA that exits too early
  store_buffer_overwritten,  // written while TMA reads it
  store_unpublished,         // TMA reads data that no fence has published
  vectors_unready,  // stored with scale vectors that have not all arrived, or that belong to another tile
  accumulator_in_flight,  // accumulators read before waiting for the products
  accumulator_wrong,      // stored sums that do not contain every k-tile exactly once
  tile_twice,             //
  tile_missing,           //
  wrong_update,           // a plain store where the product must be added to D, or the reverse
  unread_stage,           // at the end a filled stage is unread, or a barrier is within a phase
  exchange_overwritten,   // sums sent to a buffer whose previous sums are still unread
  exchange_unready,       // sums read before all have arrived
  partial_unready,        // a slot is read before its sums are known to be written
  wrong_election,         // not exactly one of a tile's peers was the last
  counter_left,           // a counter is not zero when a launch ends
  workspace_overlap,      // a slot or counter used by two parts, or outside the workspace
  before_the_wait,   // reads or overwrites, before the PDL wait, data that an earlier launch may still use
  no_wait,           // a CTA may exit before earlier launches have ended
  read_early,        // a launch reads data that an earlier one may still write
  write_over_read,   // a launch writes data that an earlier one may still read
  write_over_write,  // a launch writes data that an earlier one may still write
  endless_role,      // a role whose loop does not end
};
const char* name_of(FailureKind kind);

struct Failure {
  FailureKind kind{};
  std::string message;      // values and rule
  std::string trace;        // the last steps of the interleaving, oldest first
  std::string waiting;      // each waiting agent and its barrier
  std::optional<u64> seed;  // seed of the random schedule; empty if the search was exhaustive or unnecessary
};

/// Returns the whole failure as text.
std::string describe(const Failure& failure);

}  // namespace sluice::twin
