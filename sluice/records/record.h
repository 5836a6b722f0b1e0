// SPDX-License-Identifier: Apache-2.0
// A tuning record: what was fastest for one recipe on one GPU, and how that was found. A value with one JSON
// form. What is read is data from outside: every field is checked here, and the planner checks the choice
// again against the problem (planner.cc), so a record can be useless but never make a wrong plan.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <sluice/packed.h>
#include <sluice/records.h>
#include <sluice/records/tuned_chain.h>

namespace sluice {

inline constexpr int kRecordVersion = 2;

/// A dense product, or one of packed weights. A record's recipe and its choice are of one kind.
using AnyRecipe = std::variant<Recipe, PackedRecipe>;
using AnyChoice = std::variant<TunedChoice, packed::TunedChoice>;

/// Equal keys have one record in a book. The driver is no part: it changes times, hardly ever the order.
struct TuningKey {
  std::string gpu;   // the name that the driver gives
  int sm_count = 0;  // the same name may be sold with fewer
  AnyRecipe recipe;

  auto operator<=>(const TuningKey&) const = default;
};

struct TuningRecord {
  TuningKey key;
  AnyChoice choice;            // with the measured time
  double estimate_us = 0;      // what the model said of this choice then
  double model_us = 0;         // measured time of the model's own pick in the same run
  std::string sluice, driver;  // versions
  std::string date;            // UTC, "2026-11-21T10:00:00Z": of two records the later one wins
  std::string method;          // how it was measured, for people

  bool operator==(const TuningRecord&) const = default;
};

/// The key under which `problem` is looked up on `device`.
TuningKey key_of(const Problem& problem, const DeviceInfo& device);
TuningKey key_of(const PackedProblem& problem, const DeviceInfo& device);
double measured_us(const TuningRecord& record);
/// "0.2.0": what a record's `sluice` field is.
std::string library_version();

/// One line, fields in a fixed order.
std::string to_json(const TuningRecord& record);
/// An array, one record a line, sorted by key, tuned chains behind them by name: equal records give equal
/// bytes.
std::string to_json(std::vector<TuningRecord> records, std::vector<TunedChain> chains = {});

/// What a text holds, and a line for each record that was refused.
struct ParsedRecords {
  std::vector<TuningRecord> records;
  std::vector<TunedChain> chains;
  std::vector<std::string> troubles;
};
/// One record or an array of them. `where` is named in the troubles: "FILE: record 3: \"tile_m\" = -1 must be
/// in 1..1024: ...". A text that is no JSON has no records and one trouble.
ParsedRecords parse_records(std::string_view text, const std::string& where);

}  // namespace sluice
