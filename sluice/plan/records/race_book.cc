// SPDX-License-Identifier: Apache-2.0
#include <sluice/plan/records/race_book.h>

#include <algorithm>
#include <mutex>

namespace sluice {

RaceBook::RaceBook(const std::vector<TuningRecord>& results) {
  for (const TuningRecord& result : results) add(result);
}

void RaceBook::let_decide(const std::string& card) {
  const std::lock_guard lock(mutex_);
  card_ = card;
}

std::string RaceBook::card() const {
  const std::shared_lock lock(mutex_);
  return card_;
}

void RaceBook::add(const TuningRecord& result) {
  const std::lock_guard lock(mutex_);
  std::vector<TuningRecord>& all = results_[result.key];
  const auto same = std::find_if(all.begin(), all.end(), [&](const TuningRecord& other) {
    return other.card == result.card && other.sluice == result.sluice;
  });
  if (same == all.end())
    all.push_back(result);
  else if (same->date <= result.date)
    *same = result;
}

bool RaceBook::decides(const TuningRecord& result) const {
  return !card_.empty() && result.card == card_ && result.sluice == library_version();
}

template <class Wanted>
std::optional<TuningRecord> RaceBook::newest(const TuningKey& key, const Wanted& wanted) const {
  const std::shared_lock lock(mutex_);
  const auto found = results_.find(key);
  if (found == results_.end()) return std::nullopt;
  const TuningRecord* best = nullptr;
  for (const TuningRecord& result : found->second)
    if (wanted(result) && (best == nullptr || best->date < result.date)) best = &result;
  return best != nullptr ? std::optional(*best) : std::nullopt;
}

std::optional<TuningRecord> RaceBook::decision(const TuningKey& key) const {
  return newest(key, [&](const TuningRecord& result) { return decides(result); });
}

std::optional<TuningRecord> RaceBook::hint(const TuningKey& key) const {
  return newest(key, [&](const TuningRecord& result) { return !decides(result); });
}

}  // namespace sluice
