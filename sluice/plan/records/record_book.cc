// SPDX-License-Identifier: Apache-2.0
#include <sluice/plan/records/record_book.h>

#include <algorithm>
#include <atomic>

#include <sluice/plan/records/race_book.h>

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

ParsedRecords parse_embedded() {
  ParsedRecords sum;
  for (const EmbeddedRecords& file : embedded_record_files()) {
    ParsedRecords one = parse_records(file.text, file.file);
    for (TuningRecord& record : one.records) sum.records.push_back(std::move(record));
    for (TunedChain& chain : one.chains) sum.chains.push_back(std::move(chain));
    for (std::string& trouble : one.troubles) sum.troubles.push_back(std::move(trouble));
  }
  return sum;
}

/// The records that ship with the library.
struct Shipped {
  ParsedRecords records = parse_embedded();
  RecordBook book = book_of(records);
};
std::atomic<const Shipped*> kept_shipped{nullptr};

/// Returns what the first call parsed. Threads that call it at the same time all parse, and one result stays.
/// There is no lock: a child that is forked while another thread parses could never release it.
const Shipped& shipped() {
  const Shipped* kept = kept_shipped.load(std::memory_order_acquire);
  if (kept != nullptr) return *kept;
  auto made = std::make_unique<const Shipped>();
  if (kept_shipped.compare_exchange_strong(kept, made.get(), std::memory_order_acq_rel))
    kept = made.release();
  return *kept;
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
  return shipped().records;
}

const RecordBook& shipped_records() {
  return shipped().book;
}

std::string library_version() {
  return SLUICE_VERSION;
}

}  // namespace sluice
