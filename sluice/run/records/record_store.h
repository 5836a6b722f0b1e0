// SPDX-License-Identifier: Apache-2.0
// Records on disk: the user's folder (private, one file per record), or one file with an array (the shipped
// form). A save writes a temporary file and renames it, so readers see the old or the new content, and kill
// -9 loses nothing that was saved. Called by `sluice tune` and kept_record.cc; the book only reads. Results
// of races are in a subfolder (race_store.h).
#pragma once

#include <optional>

#include <sluice/gemm.h>
#include <sluice/plan/records/record.h>
#include <sluice/run/jit/cache_directory.h>

namespace sluice {

/// Reads all records of the user's folder, results of races too, sorted by file name; none if the path is
/// empty or absent. An untrusted folder (another user's, writable by others, a link) is reported as a
/// trouble.
ParsedRecords read_records_folder(const std::string& path);

/// e.g. "4096x4096x4096-bf16-bf16-<digest of the key>.json"
std::string file_name_of(const TuningKey& key);
/// e.g. "chain-8-<digest of GPU and steps>.json"
std::string file_name_of(const TunedChain& chain);

/// Writes the one file of the record, whatever is there. Error io.
Result<void> save_in_folder(const std::string& path, const TuningRecord& record);
Result<void> save_in_folder(const std::string& path, const TunedChain& chain);

class RecordStore {
 public:
  /// Creates the folder (0700). Error io: it cannot be opened or written to.
  static Result<RecordStore> open_folder(const std::string& path);
  /// Reads the file if it exists. Errors: io (unreadable, or its folder is not writable), invalid_argument (a
  /// record is refused, and saving would drop it).
  static Result<RecordStore> open_file(const std::string& path);

  const std::vector<TuningRecord>& records() const { return records_; }
  const std::vector<TunedChain>& chains() const { return chains_; }
  const std::vector<std::string>& troubles() const { return troubles_; }
  /// Null if there is none.
  const TuningRecord* find(const TuningKey& key) const;
  /// Replaces the record of an equal key. Error io.
  Result<void> save(const TuningRecord& record);
  /// Replaces the chain of equal steps.
  Result<void> save(const TunedChain& chain);

 private:
  RecordStore() = default;
  Result<void> write(const std::string& name, const std::string& line);

  std::string file_;  // used instead of a folder
  std::optional<CacheDirectory> folder_;
  std::vector<TuningRecord> records_;
  std::vector<TunedChain> chains_;
  std::vector<std::string> troubles_;
};

/// The `driver` field of new records: the card's driver, "580.159.04".
std::string driver_version(const Device& device);
/// Returns a plan as a record of this device. `pick_us`: the measured time of the model's pick.
TuningRecord record_of(const Device& device, const Plan& plan, double pick_us, const std::string& method);
/// "2026-11-21T10:00:00Z"
std::string utc_now();

/// As keep_record() of sluice/records.h, for a tuned chain. Further error: invalid_argument, if the caller
/// chose the kernel of a step, which no record can hold.
Result<void> keep_record(const Device& device, const TunedChain& chain);

/// Opens the store that a tool's flags name: --out's file, --records' folder, or the user's. Errors:
/// invalid_argument (both flags, or no place at all), io.
Result<RecordStore> open_store(const std::string& out, const std::string& records, const Options& options);

}  // namespace sluice
