// SPDX-License-Identifier: Apache-2.0
// Results of races, stored with the user's records and in the device's book
// (docs/decisions/0027-results-of-races.md). Each belongs to one card (UUID and driver) and one version of
// the library. For these it decides; for others it is a hint, which races too. Tuned records have precedence
// over the results, and no race replaces them. Defined in run/records/race_results.cc.
#pragma once

#include <sluice/gemm.h>
#include <sluice/records.h>

namespace sluice::ops {

/// Books of at most one record.
struct KnownResults {
  RecordBook decision;  // a tuned record, or this card's own result; no race is needed
  RecordBook hint;      // the newest result of another card, driver or version
};
/// Reads the problem's own files, since another process may have written them after the device was opened. A
/// decision is in the device's book afterwards. Takes 30 us; trouble with the folder counts as no result.
KnownResults known_results(const Device& device, const Problem& problem);

struct RaceReport {
  double pick_us = 0;  // the model's pick; 0 if it was dropped
  int racers = 0, dropped = 0;
  bool pick_dropped = false;
};
/// Puts the plan and its measured_us into the device's book, and into the user's folder if there is one that
/// can be written to. Does nothing for products that have no record of their own.
void keep_result(const Device& device, const Plan& won, const RaceReport& report);

/// Lets the book's results of this card decide. Called once, when the card is known.
void let_card_decide(const RecordBook& book, const std::string& card);

}  // namespace sluice::ops
