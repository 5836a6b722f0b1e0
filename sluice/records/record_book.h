// SPDX-License-Identifier: Apache-2.0
// How a RecordBook (include/sluice/records.h) is made: a hash table from key to choice, built once from
// layers. A record of a later layer wins over one of an earlier; within a layer the newer one wins.
#pragma once

#include <span>
#include <unordered_map>

#include <sluice/records/record.h>

namespace sluice {

struct TuningKeyHash {
  std::size_t operator()(const TuningKey& key) const;
};

struct RecordBook::Impl {
  std::unordered_map<TuningKey, AnyChoice, TuningKeyHash> choices;  // of the kind of their key's recipe
  std::vector<TunedChain> chains;  // of those that fit as many steps the first wins
  std::vector<std::string> troubles;
};

/// `shipped` below, `own` above; both in any order. Troubles of both are the book's.
RecordBook book_of(const ParsedRecords& shipped, const ParsedRecords& own = {});
/// The same of products alone.
RecordBook book_of(std::span<const TuningRecord> shipped, std::span<const TuningRecord> own = {});

/// The records of sluice/records/shipped, embedded at build time (tools/embed_records.py).
const ParsedRecords& embedded_records();

struct EmbeddedRecords {
  const char* file;
  std::string_view text;
};
/// Generated.
std::span<const EmbeddedRecords> embedded_record_files();

}  // namespace sluice
