// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/ops/replay_timer.h>

#include <sluice/try.h>

namespace sluice {

Result<ReplayTimer> ReplayTimer::create(const Device& device) {
  SLUICE_TAKE(Event start, Event::create(device));
  SLUICE_TAKE(Event end, Event::create(device));
  return ReplayTimer(std::move(start), std::move(end));
}

Result<double> ReplayTimer::time(Stream stream, const EnqueueCall& replay, const Around& around) const {
  SLUICE_TRY(replay());
  if (around.before) SLUICE_TRY(around.before());
  SLUICE_TRY(start_.record(stream));
  SLUICE_TRY(replay());
  SLUICE_TRY(end_.record(stream));
  if (around.behind) SLUICE_TRY(around.behind());
  SLUICE_TRY(end_.synchronize());
  return end_.microseconds_since(start_);
}

}  // namespace sluice
