// SPDX-License-Identifier: Apache-2.0
// Tuning records on disk, for programs that measure: one file with many records (the form that ships), or the
// user's folder with one file per record. A save replaces the old content whole, so that a reader never finds
// half a record. sluice/records.h reads records into a book; keep_record() there stores a single plan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sluice/options.h>
#include <sluice/plan.h>
#include <sluice/records.h>

namespace sluice {

class RecordStore;
struct TuningRecord;
struct TunedChain;

class RecordFile {
 public:
  /// Opens `file`, else the folder `folder`, else Options::records_dir; the first that is not empty. Makes
  /// the folder if there is none. Errors: invalid_argument (both given, or no place at all; a record of the
  /// file is refused, and saving would drop it), io.
  static Result<RecordFile> open(const std::string& file, const std::string& folder, const Options& options);

  /// Records that were skipped: one line each, with the broken rule and the remedy.
  const std::vector<std::string>& troubles() const;
  /// The records as a book for plan().
  RecordBook book() const;
  /// True if the problem has a record that this version of sluice made under this driver.
  bool has(const Problem& problem, const DeviceInfo& device, const std::string& driver) const;
  /// Replaces the record with the same key. Error io.
  Result<void> save(const TuningRecord& record);
  Result<void> save(const TunedChain& chain);

 private:
  explicit RecordFile(std::shared_ptr<RecordStore> store) : store_(std::move(store)) {}
  std::shared_ptr<RecordStore> store_;
};

/// A name that problems share if they share a record on this device. Errors: those of gemm::plan.
Result<std::string> record_name(const Problem& problem, const DeviceInfo& device);
/// The number of tuned records in a folder; 0 if there is none.
int records_in(const std::string& folder);

}  // namespace sluice
