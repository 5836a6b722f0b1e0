// SPDX-License-Identifier: Apache-2.0
// Builds a RecordBook (include/sluice/records.h): a hash table from key to choice, made once from layers. A
// later layer has precedence over an earlier one; within a layer the newer record has. Results of races
// (race_book.h) come after all layers, and are the only part that changes.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>

#include <sluice/plan/records/record.h>

namespace sluice {

struct TuningKeyHash {
  std::size_t operator()(const TuningKey& key) const;
};

class RaceBook;

struct RecordBook::Impl {
  std::unordered_map<TuningKey, TunedChoice, TuningKeyHash> choices;
  std::vector<TunedChain> chains;  // the first of those that match as many steps wins
  std::vector<std::string> troubles;
  std::shared_ptr<RaceBook> races;  // null unless open_records() made the book
};

/// Puts `own` over `shipped`, each in any order. The book takes the troubles of both.
RecordBook book_of(const ParsedRecords& shipped, const ParsedRecords& own = {});
RecordBook book_of(std::span<const TuningRecord> shipped, std::span<const TuningRecord> own = {});

/// The records of sluice/plan/records/shipped, embedded at build time (tools/embed_sources.py).
const ParsedRecords& embedded_records();

struct EmbeddedRecords {
  const char* file;
  std::string_view text;
};
/// Generated.
std::span<const EmbeddedRecords> embedded_record_files();

}  // namespace sluice
