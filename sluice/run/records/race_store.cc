// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/records/race_store.h>

#include <algorithm>
#include <filesystem>

#include <sluice/run/records/record_store.h>
#include <sluice/try.h>

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kLockTimeout{2000};
constexpr const char* kSubject = "the folder of races' results";

ParsedRecords parsed(const CacheDirectory& folder, const std::string& name) {
  const CacheDirectory::ReadResult file = folder.read(name);
  if (file.state != CacheDirectory::ReadState::whole) return {};
  return parse_records(file.bytes, name);
}

/// Adds what the file holds for this key.
void add_file(const std::string& folder, const TuningKey& key, ParsedRecords& all) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored)) return;
  const Result<CacheDirectory> opened =
      CacheDirectory::open(folder, CacheDirectory::Access::read_only, kSubject);
  if (!opened) return;
  ParsedRecords one = parsed(*opened, file_name_of(key));
  for (auto member : {&ParsedRecords::records, &ParsedRecords::races})
    for (TuningRecord& record : one.*member)
      if (record.key == key) (all.*member).push_back(std::move(record));
}

}  // namespace

std::string race_folder(const std::string& records_dir) {
  return records_dir + "/races";
}

ParsedRecords read_results(const std::string& records_dir, const TuningKey& key) {
  ParsedRecords all;
  if (records_dir.empty()) return all;
  add_file(records_dir, key, all);
  add_file(race_folder(records_dir), key, all);
  return all;
}

Result<void> save_result(const std::string& records_dir, const TuningRecord& result) {
  const ParsedRecords read = parse_records(to_json(result), "a result to keep");
  if (!read.troubles.empty()) return Error{ErrorCode::invalid_argument, read.troubles.front()};
  // The folder above must be as safe, and is made like it.
  SLUICE_TRY(CacheDirectory::open(records_dir, CacheDirectory::Access::read_write, kSubject));
  SLUICE_TAKE(const CacheDirectory folder,
              CacheDirectory::open(race_folder(records_dir), CacheDirectory::Access::read_write, kSubject));
  const std::string name = file_name_of(result.key);
  SLUICE_TAKE(const CacheDirectory::Lock lock, folder.lock(name, kLockTimeout));
  std::vector<TuningRecord> all = parsed(folder, name).races;
  const auto same = [&](const TuningRecord& other) {
    return other.key == result.key && other.card == result.card && other.sluice == result.sluice;
  };
  if (std::any_of(all.begin(), all.end(),
                  [&](const TuningRecord& r) { return same(r) && r.date > result.date; }))
    return {};
  std::erase_if(all, same);
  all.push_back(result);
  std::stable_sort(all.begin(), all.end(),
                   [](const TuningRecord& x, const TuningRecord& y) { return x.date > y.date; });
  if (all.size() > kMostResults) all.resize(kMostResults);
  return folder.write(name, to_json(std::move(all)), lock);
}

}  // namespace sluice
