// SPDX-License-Identifier: Apache-2.0
// A tuning record: the fastest choice for one recipe on one GPU, and how it was measured, with its JSON form.
// JSON from outside is checked field by field here, and planner.cc checks the choice against the problem. So
// an invalid record is ignored, but never gives a wrong plan.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/plan/records/tuned_chain.h>
#include <sluice/records.h>
#include <sluice/text.h>  // library_version(), of new records

namespace sluice {

inline constexpr int kRecordVersion = 2;

/// The key of a record; a book has one record per key. It does not include the driver's version, which
/// changes times, but hardly ever their order.
struct TuningKey {
  std::string gpu;   // the driver's name of the GPU
  int sm_count = 0;  // may differ between GPUs with the same name
  Recipe recipe;

  auto operator<=>(const TuningKey&) const = default;
};

struct TuningRecord {
  TuningKey key;
  TunedChoice choice;          // includes the measured time
  double estimate_us = 0;      // the model's estimate for this choice at that time
  double model_us = 0;         // measured time of the model's pick in that run
  std::string sluice, driver;  // versions
  std::string date;            // UTC, "2026-11-21T10:00:00Z"; the later of two records wins
  std::string method;          // how it was measured, as readable text
  // The key of the card (Card::key()) that raced; empty: a tuned record.
  std::string card{};

  bool operator==(const TuningRecord&) const = default;
};

TuningKey key_of(const Problem& problem, const DeviceInfo& device);
/// Returns whether the problem can have a record of its own. Packed weights with a gate, a norm or a residual
/// cannot: they have the recipe of the plain product, which has kernels that these do not support.
inline bool has_own_record(const Problem& p) {
  return !is_packed(p) || (!p.epilogue.gated && !p.norm_a && !p.epilogue.residual);
}

/// One line, fields in a fixed order.
std::string to_json(const TuningRecord& record);
/// Returns an array with one record per line: records sorted by key, those of packed weights last, then
/// tuned chains by name. Equal records give equal bytes.
std::string to_json(std::vector<TuningRecord> records, std::vector<TunedChain> chains = {});

/// Returns whether the record is a race's result. Races before 0.3 wrote theirs as tuned records, without a
/// card.
bool is_of_race(const TuningRecord& record);

/// The records of a text, and one line for each that was refused.
struct ParsedRecords {
  std::vector<TuningRecord> records;  // tuned ones
  std::vector<TuningRecord> races;    // results of races
  std::vector<TunedChain> chains;
  std::vector<std::string> troubles;
};
/// Parses one record or an array. `where` begins the troubles: "FILE: record 3: \"tile_m\" = -1 must be in
/// 1..1024: ...". Text that is not JSON gives no records and one trouble.
ParsedRecords parse_records(std::string_view text, const std::string& where);

}  // namespace sluice
