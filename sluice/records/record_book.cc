// SPDX-License-Identifier: Apache-2.0
#include <sluice/records/record_book.h>

#include <algorithm>

#include <sluice/host/jit/fork_gate.h>
#include <sluice/records/race_book.h>
#include <sluice/records/record_store.h>

namespace sluice {
namespace {

using Newest = std::unordered_map<TuningKey, const TuningRecord*, TuningKeyHash>;

void add_layer(std::span<const TuningRecord> records, RecordBook::Impl& book) {
  Newest newest;
  for (const TuningRecord& record : records) {
    const TuningRecord*& kept = newest[record.key];
    if (kept == nullptr || kept->date <= record.date) kept = &record;
  }
  for (const auto& [key, record] : newest) book.choices[key] = record->choice;
}

void add_layer(std::vector<TunedChain> chains, RecordBook::Impl& book) {
  std::stable_sort(chains.begin(), chains.end(),
                   [](const TunedChain& x, const TunedChain& y) { return x.date > y.date; });
  book.chains.insert(book.chains.begin(), chains.begin(), chains.end());
}

std::shared_ptr<RecordBook::Impl> impl_of(const ParsedRecords& shipped, const ParsedRecords& own) {
  auto book = std::make_shared<RecordBook::Impl>();
  for (const ParsedRecords* layer : {&shipped, &own}) {
    add_layer(layer->records, *book);
    add_layer(layer->chains, *book);
    book->troubles.insert(book->troubles.end(), layer->troubles.begin(), layer->troubles.end());
  }
  return book;
}

}  // namespace

std::size_t TuningKeyHash::operator()(const TuningKey& key) const {
  return hash_of(key.recipe) ^ std::hash<std::string>()(key.gpu);
}

RecordBook::RecordBook() : impl_(std::make_shared<const Impl>()) {}

std::optional<TunedChoice> RecordBook::find(const Problem& problem, const DeviceInfo& device) const {
  const Impl& book = impl();
  if (book.choices.empty() && book.races == nullptr) return std::nullopt;
  const TuningKey key = key_of(problem, device);
  if (const auto found = book.choices.find(key); found != book.choices.end()) return found->second;
  const auto raced = book.races != nullptr ? book.races->decision(key) : std::nullopt;
  return raced ? std::optional(raced->choice) : std::nullopt;
}

int RecordBook::size() const {
  return static_cast<int>(impl_->choices.size() + impl_->chains.size());
}

const std::vector<std::string>& RecordBook::troubles() const {
  return impl_->troubles;
}

RecordBook book_of(const ParsedRecords& shipped, const ParsedRecords& own) {
  return RecordBook(impl_of(shipped, own));
}

RecordBook book_of(std::span<const TuningRecord> shipped, std::span<const TuningRecord> own) {
  return book_of(ParsedRecords{.records = {shipped.begin(), shipped.end()}},
                 ParsedRecords{.records = {own.begin(), own.end()}});
}

const ParsedRecords& embedded_records() {
  static const ParsedRecords all = [] {
    ParsedRecords sum;
    for (const EmbeddedRecords& file : embedded_record_files()) {
      ParsedRecords one = parse_records(file.text, file.file);
      for (TuningRecord& record : one.records) sum.records.push_back(std::move(record));
      for (TunedChain& chain : one.chains) sum.chains.push_back(std::move(chain));
      for (std::string& trouble : one.troubles) sum.troubles.push_back(std::move(trouble));
    }
    return sum;
  }();
  return all;
}

const RecordBook& shipped_records() {
  const ForkGate no_fork;  // guards the static's initialisation
  static const RecordBook book = book_of(embedded_records());
  return book;
}

RecordBook open_records(const Options& options) {
  const ParsedRecords own = read_records_folder(options.records_dir);
  // Without records of the user's, the choices are those of the shipped book, which need not be hashed again.
  const bool none = own.records.empty() && own.chains.empty() && own.troubles.empty();
  auto book =
      none ? std::make_shared<RecordBook::Impl>(shipped_records().impl()) : impl_of(embedded_records(), own);
  book->races = std::make_shared<RaceBook>(own.races);
  return RecordBook(std::move(book));
}

std::string library_version() {
  return SLUICE_VERSION;
}

}  // namespace sluice
