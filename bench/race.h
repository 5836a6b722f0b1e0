// SPDX-License-Identifier: Apache-2.0
// Times contenders and records the results: short screening rounds select the fastest, which are then timed
// in turn. Used by session.cc, rows.cc and chain/peer.cc.
#pragma once

#include <string>
#include <vector>

#include <sluice/bench/record.h>

#include "bench/contender/contender.h"
#include "bench/lab.h"
#include "bench/measure.h"

namespace sluice::bench {

inline constexpr size_t kFinalists = 2;

struct Entrant {
  Contender contender;
  ContenderRecord record;
  int copies = 0;  // operand sets that it rotates over; 0: Timing::copies
};

Entrant entrant_of(Contender contender);

struct Timing {
  int copies = 1;
  double replay_us;
  Rounds rounds;
};

/// Stores the result of a check in the record. `looked`: the check read enough of D for the contender to
/// count as verified.
void take_verdict(Entrant& entrant, const Result<Comparison>& found, bool looked);

/// Times contenders in turn. One that cannot be captured as a graph gets an error and is left out.
void time_entrants(const Lab& lab, const std::vector<Entrant*>& entrants, const Timing& timing);

/// Times contenders briefly and returns the `most` fastest, fastest first. Contenders with wrong results are
/// not timed.
std::vector<Entrant*> best_of(const Lab& lab, std::vector<Entrant>& entrants, int copies,
                              size_t most = kFinalists);

/// Keeps, of the records with this name, only the fastest one with right results.
void keep_fastest(std::vector<ContenderRecord>& records, const std::string& name);

}  // namespace sluice::bench
