// SPDX-License-Identifier: Apache-2.0
// The time of one replay behind another, which races (host/ops/race.h), the tuner of chains and bench share.
#pragma once

#include <functional>
#include <span>

#include <sluice/host/driver/events.h>

namespace sluice {

using EnqueueCall = std::function<Result<void>()>;

/// Work that is enqueued around a timed replay.
struct Around {
  EnqueueCall before{}, behind{};
};

class ReplayTimer {
 public:
  static Result<ReplayTimer> create(const Device& device);

  /// Enqueues `replay` twice and returns the microseconds of the second. The GPU works on the first, which
  /// wakes its clocks, while the host enqueues the second. Waits for the GPU. Errors: those of the calls;
  /// driver.
  Result<double> time(Stream stream, const EnqueueCall& replay, const Around& around = {}) const;

 private:
  ReplayTimer(Event start, Event end) : start_(std::move(start)), end_(std::move(end)) {}
  Event start_, end_;
};

/// Calls time(i) for each of `count` contenders in each round. The order moves on by one each round, so that
/// nobody always follows the same. Errors: those of time().
template <class Time>
Result<void> for_each_turn(size_t count, int rounds, const Time& time) {
  for (int round = 0; round < rounds; ++round)
    for (size_t turn = 0; turn < count; ++turn)
      if (Result<void> timed = time((turn + static_cast<size_t>(round)) % count); !timed) return timed;
  return {};
}

}  // namespace sluice
