// SPDX-License-Identifier: Apache-2.0
// Results of races on disk: the folder `races` of the user's records, one file for each problem and model of
// GPU. A file holds a result of each card, driver and version that raced. Called by race_results.cc; the book
// reads the whole folder when a Device opens.
#pragma once

#include <sluice/plan/records/record.h>

namespace sluice {

/// Results in one file. The oldest leave.
inline constexpr std::size_t kMostResults = 64;

/// The folder `races` in the folder of records.
std::string race_folder(const std::string& records_dir);

/// Reads the problem's own two files: its tuned record, and the results of its races. A file that is missing
/// or cannot be used gives none.
ParsedRecords read_results(const std::string& records_dir, const TuningKey& key);

/// Adds the result to its file, under the file's lock, in the place of an older one of the same card, driver
/// and version. A newer one stays. Errors: io; invalid_argument (no record can hold it).
Result<void> save_result(const std::string& records_dir, const TuningRecord& result);

}  // namespace sluice
