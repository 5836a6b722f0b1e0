// SPDX-License-Identifier: Apache-2.0
// Results of races in a book (record_book.h), below its tuned records: those of the folder when the device
// was opened, and those of the device's own races since. Any thread may call every function.
#pragma once

#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <sluice/plan/records/record_book.h>

namespace sluice {

class RaceBook {
 public:
  explicit RaceBook(const std::vector<TuningRecord>& results);

  /// Results of this card and of this version decide from now on.
  void let_decide(const std::string& card);
  /// The key that decides; empty before let_decide().
  std::string card() const;
  /// Adds a result, in the place of an older one of the same card, driver and version.
  void add(const TuningRecord& result);
  /// The result that decides.
  std::optional<TuningRecord> decision(const TuningKey& key) const;
  /// Returns the newest result of another card, driver or version.
  std::optional<TuningRecord> hint(const TuningKey& key) const;

 private:
  bool decides(const TuningRecord& result) const;
  template <class Wanted>
  std::optional<TuningRecord> newest(const TuningKey& key, const Wanted& wanted) const;

  mutable std::shared_mutex mutex_;
  std::string card_;
  std::unordered_map<TuningKey, std::vector<TuningRecord>, TuningKeyHash> results_;
};

}  // namespace sluice
