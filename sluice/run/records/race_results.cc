// SPDX-License-Identifier: Apache-2.0
// Results of races between a device's book, the user's folder, and the races themselves
// (run/ops/race_results.h).
#include <sluice/run/ops/race_results.h>

#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/plan/records/race_book.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/records/race_store.h>
#include <sluice/run/records/record_store.h>

namespace sluice::ops {
namespace {

/// Name of a card whose UUID the driver does not report. Its results are used in this process only.
constexpr const char* kUnknownCard = "unknown";

RecordBook book_with(const std::optional<TuningRecord>& record) {
  return record ? book_of(std::span(&*record, 1)) : RecordBook();
}

std::string method_of(const RaceReport& report) {
  std::string text = "a race of " + std::to_string(report.racers) + " plans";
  if (report.pick_dropped)
    text += "; the model's pick was dropped, because the others agree on another result: report this";
  else if (report.dropped > 0)
    text += "; " + std::to_string(report.dropped) + " dropped, because results differ: report this";
  return text;
}

}  // namespace

KnownResults known_results(const Device& device, const Problem& problem) {
  const DeviceInfo& info = device.info();  // the card decides from here on
  if (!has_own_record(problem)) return {};
  const TuningKey key = key_of(problem, info);
  RaceBook& book = *device.records().impl().races;
  const ParsedRecords files = read_results(device.options().records_dir, key);
  for (const TuningRecord& result : files.races) book.add(result);
  for (TuningRecord record : files.records) {
    // A record that `sluice tune` wrote after the device was opened. This device uses it like the result of a
    // race.
    record.card = book.card();
    record.sluice = library_version();
    record.date = utc_now();
    book.add(record);
  }
  return {.decision = book_with(book.decision(key)), .hint = book_with(book.hint(key))};
}

void keep_result(const Device& device, const Plan& won, const RaceReport& report) {
  if (!has_own_record(won.problem)) return;
  TuningRecord result = record_of(device, won, report.pick_us, method_of(report));
  result.card = device.records().impl().races->card();
  device.records().impl().races->add(result);
  // Without a folder, or one that cannot be written to, the next process races again.
  if (result.card != kUnknownCard && !device.options().records_dir.empty())
    static_cast<void>(save_result(device.options().records_dir, result));
}

void let_card_decide(const RecordBook& book, const std::string& card) {
  book.impl().races->let_decide(card.empty() ? kUnknownCard : card);
}

}  // namespace sluice::ops
