// SPDX-License-Identifier: Apache-2.0
// Contenders on their way to records: timed in turn, screened down to the fastest. Used by session.cc.
#pragma once

#include <string>
#include <vector>

#include "bench/contender/contender.h"
#include "bench/lab.h"
#include "bench/measure.h"
#include "bench/record.h"

namespace sluice::bench {

struct Entrant {
  Contender contender;
  ContenderRecord record;
  int copies = 0;  // sets of operands that it rotates over; 0: those of Timing
};

Entrant entrant_of(Contender contender);

struct Timing {
  int copies = 1;
  double replay_us;
  Rounds rounds;
};

/// Writes down what a check said of the entrant's product. `looked`: at enough of it to call it verified.
void take_verdict(Entrant& entrant, const Result<Comparison>& found, bool looked);

/// Times entrants in turn; those that cannot be captured get an error and drop out.
void time_entrants(const Lab& lab, const std::vector<Entrant*>& entrants, const Timing& timing);

/// Screens and keeps the two fastest, fastest first. What was judged and found wrong is not timed.
std::vector<Entrant*> best_of(const Lab& lab, std::vector<Entrant>& entrants, int copies);

/// Of the finalists of one name only the fastest right one stays.
void keep_fastest(std::vector<ContenderRecord>& records, const std::string& name);

}  // namespace sluice::bench
