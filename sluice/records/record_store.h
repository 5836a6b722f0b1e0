// SPDX-License-Identifier: Apache-2.0
// Records on disk, in either of two forms: the user's folder (private, one file a record) or one file with an
// array (the form that ships). A save is written to a temporary name and renamed, so that a reader sees the
// old or the new and kill -9 loses nothing that was saved. Called by `sluice tune`; the book only reads.
#pragma once

#include <optional>

#include <sluice/host/jit/cache_directory.h>
#include <sluice/records/record.h>

namespace sluice {

/// All records of the user's folder, in the order of their names. Empty path, or no such folder: none. A
/// folder that cannot be trusted (of another user, writable by others, a link) is a trouble.
ParsedRecords read_records_folder(const std::string& path);

/// "4096x4096x4096-bf16-bf16-<digest of the key>.json".
std::string file_name_of(const TuningKey& key);
/// "chain-8-<digest of GPU and steps>.json"
std::string file_name_of(const TunedChain& chain);

class RecordStore {
 public:
  /// Creates the folder (0700). Error io: it cannot be used or written to.
  static Result<RecordStore> open_folder(const std::string& path);
  /// Reads the file if it is there. Errors: io (unreadable, or its folder cannot be written to),
  /// invalid_argument (it holds a record that is refused: saving would drop it).
  static Result<RecordStore> open_file(const std::string& path);

  const std::vector<TuningRecord>& records() const { return records_; }
  const std::vector<TunedChain>& chains() const { return chains_; }
  const std::vector<std::string>& troubles() const { return troubles_; }
  /// nullptr if there is none.
  const TuningRecord* find(const TuningKey& key) const;
  /// In place of the one with an equal key, if there is one. Error io.
  Result<void> save(const TuningRecord& record);
  /// In place of the one of the same steps.
  Result<void> save(const TunedChain& chain);

 private:
  RecordStore() = default;
  Result<void> write(const std::string& name, const std::string& line);

  std::string file_;  // one of the two
  std::optional<CacheDirectory> folder_;
  std::vector<TuningRecord> records_;
  std::vector<TunedChain> chains_;
  std::vector<std::string> troubles_;
};

/// What a tool's flags ask for: --out's file, --records' folder, or the user's. Errors: invalid_argument
/// (both, or none of the three), those of opening.
Result<RecordStore> open_store(const std::string& out, const std::string& records, const Options& options);

}  // namespace sluice
