// SPDX-License-Identifier: Apache-2.0
// Times one replay directly after another. Used by races (run/ops/race.h), the tuner of chains and bench.
#pragma once

#include <functional>
#include <span>

#include <sluice/run/driver/events.h>

namespace sluice {

using EnqueueCall = std::function<Result<void>()>;

/// Work that is enqueued before and after each timed replay.
struct Around {
  EnqueueCall before{}, behind{};
};

class ReplayTimer {
 public:
  static Result<ReplayTimer> create(const Device& device);

  /// Enqueues `replay` twice and returns the time of the second in microseconds. While the GPU runs the
  /// first, which also raises its clocks, the host enqueues the second. Waits for the GPU. Errors: those of
  /// the calls; driver.
  Result<double> time(Stream stream, const EnqueueCall& replay, const Around& around = {}) const;

 private:
  ReplayTimer(Event start, Event end) : start_(std::move(start)), end_(std::move(end)) {}
  Event start_, end_;
};

/// Calls time(i) for each of `count` contenders in every round. The order rotates by one per round, so that
/// no contender always follows the same one. Errors: those of time().
template <class Time>
Result<void> for_each_turn(size_t count, int rounds, const Time& time) {
  for (int round = 0; round < rounds; ++round)
    for (size_t turn = 0; turn < count; ++turn)
      if (Result<void> timed = time((turn + static_cast<size_t>(round)) % count); !timed) return timed;
  return {};
}

}  // namespace sluice
