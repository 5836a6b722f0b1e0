// SPDX-License-Identifier: Apache-2.0
// A device's book: the shipped records, the user's files, and the results of races.
#include <sluice/plan/records/race_book.h>
#include <sluice/run/records/record_store.h>

namespace sluice {

RecordBook open_records(const Options& options) {
  const ParsedRecords own = read_records_folder(options.records_dir);
  // Without records of the user's, the choices are those of the shipped book, which need not be hashed again.
  const bool none = own.records.empty() && own.chains.empty() && own.troubles.empty();
  const RecordBook& layers = none ? shipped_records() : book_of(embedded_records(), own);
  auto book = std::make_shared<RecordBook::Impl>(layers.impl());
  book->races = std::make_shared<RaceBook>(own.races);
  return RecordBook(std::move(book));
}

}  // namespace sluice
