// SPDX-License-Identifier: Apache-2.0
// Times contenders and records the results: short screening rounds select the fastest, which are then timed
// in turn. Used by session.cc, rows.cc and chain/peer.cc.
#pragma once

#include <string>
#include <vector>

#include "bench/contender/contender.h"
#include "bench/lab.h"
#include "bench/measure.h"
#include "bench/record.h"

namespace sluice::bench {

inline constexpr size_t kFinalists = 2;

struct Entrant {
  Contender contender;
  ContenderRecord record;
  int copies = 0;  // sets of operands it rotates over; 0: as in Timing
};

Entrant entrant_of(Contender contender);

struct Timing {
  int copies = 1;
  double replay_us;
  Rounds rounds;
};

/// Records a check's result. `looked`: it read enough of D to call the product verified.
void take_verdict(Entrant& entrant, const Result<Comparison>& found, bool looked);

/// Times entrants in turn; those that cannot be captured get an error and drop out.
void time_entrants(const Lab& lab, const std::vector<Entrant*>& entrants, const Timing& timing);

/// Screens contenders and returns the `most` fastest, fastest first. Contenders with wrong results are not
/// timed.
std::vector<Entrant*> best_of(const Lab& lab, std::vector<Entrant>& entrants, int copies,
                              size_t most = kFinalists);

/// Keeps only the fastest right record of those with this name.
void keep_fastest(std::vector<ContenderRecord>& records, const std::string& name);

}  // namespace sluice::bench
