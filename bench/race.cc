// SPDX-License-Identifier: Apache-2.0
#include "bench/race.h"

#include <algorithm>

namespace sluice::bench {
namespace {

constexpr double kScreenReplayUs = 800;
constexpr Rounds kScreenRounds{.count = 3, .rest_ms = 1};

/// True if `a` ranks before `b`: right results before wrong ones, then the faster one.
bool is_better(const ContenderRecord& a, const ContenderRecord& b) {
  return a.verified != b.verified ? a.verified : a.us.median < b.us.median;
}

}  // namespace

Entrant entrant_of(Contender contender) {
  ContenderRecord record{.name = contender.name, .detail = contender.detail};
  return {std::move(contender), std::move(record)};
}

void take_verdict(Entrant& entrant, const Result<Comparison>& found, bool looked) {
  ContenderRecord& record = entrant.record;
  if (!found) {
    record.error = found.error().message;
    return;
  }
  record.verified = found->passed() && looked;
  record.wrong = found->verdict() == Verdict::wrong;
  record.verdict = describe(*found);
  if (found->verdict() == Verdict::not_judged) record.error = record.verdict;
}

void time_entrants(const Lab& lab, const std::vector<Entrant*>& entrants, const Timing& timing) {
  std::vector<Replay> replays;
  std::vector<Entrant*> running;
  for (Entrant* entrant : entrants) {
    if (!entrant->record.error.empty()) continue;
    const int copies = entrant->copies > 0 ? entrant->copies : timing.copies;
    Result<Replay> replay = replay_for(lab, entrant->contender, copies, timing.replay_us);
    if (!replay) {
      entrant->record.error = replay.error().message;
      continue;
    }
    entrant->record.launches = replay->launches;
    replays.push_back(std::move(*replay));
    running.push_back(entrant);
  }
  const auto times = time_in_turn(lab, replays, timing.rounds);
  for (size_t i = 0; i < running.size(); ++i) {
    if (!times) {
      running[i]->record.error = times.error().message;
      continue;
    }
    const Timed& timed = (*times)[i];
    running[i]->record.rounds = timed.us;
    running[i]->record.us = quantiles_of(timed.us);
    running[i]->record.sm_mhz = quantile(timed.sm_mhz, 0.5);
  }
}

std::vector<Entrant*> best_of(const Lab& lab, std::vector<Entrant>& entrants, int copies, size_t most) {
  std::vector<Entrant*> all;
  for (Entrant& entrant : entrants)
    if (!entrant.record.wrong) all.push_back(&entrant);
  time_entrants(lab, all, {.copies = copies, .replay_us = kScreenReplayUs, .rounds = kScreenRounds});
  std::erase_if(all, [](const Entrant* e) { return !e->record.error.empty() || e->record.us.median <= 0; });
  std::stable_sort(all.begin(), all.end(), [](const Entrant* a, const Entrant* b) {
    return a->record.us.median < b->record.us.median;
  });
  if (all.size() > most) all.resize(most);
  return all;
}

void keep_fastest(std::vector<ContenderRecord>& records, const std::string& name) {
  const ContenderRecord* best = nullptr;
  for (const ContenderRecord& r : records)
    if (r.name == name && r.error.empty() && (best == nullptr || is_better(r, *best))) best = &r;
  if (best == nullptr) return;
  const ContenderRecord kept = *best;
  std::erase_if(records, [&](const ContenderRecord& r) { return r.name == name; });
  records.push_back(kept);
}

}  // namespace sluice::bench
