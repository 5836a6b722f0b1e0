// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include <sluice/try.h>

namespace sluice::bench {
namespace {

constexpr int kProbeLaunches = 4;  // timed launches, after the same number of untimed ones
constexpr int kHostLaunches = 51;  // launches whose CPU time is measured, for the median
constexpr double kLongReplayUs = 3000, kLongRestMs = 20;

Result<void> launch_many(const Lab& lab, const Contender& contender, int copies, int launches) {
  for (int i = 0; i < launches; ++i) SLUICE_TRY(contender.launch(i % copies, lab.stream.get()));
  return {};
}

Result<void> note_clock(const Lab& lab, bool wanted, SmClock::Edge edge) {
  return wanted ? lab.clock->note(edge, lab.stream.get()) : Result<void>{};
}

Result<void> time_replay(const Lab& lab, const Replay& replay, const Rounds& rounds,
                         std::vector<Sample>* samples, Timed& timed) {
  const bool clocks = rounds.clocks && lab.clock;
  const Stream stream = lab.stream.get();
  const auto behind = [&]() -> Result<void> {
    SLUICE_TRY(note_clock(lab, clocks, SmClock::Edge::end));
    if (Sample sample; samples != nullptr && lab.telemetry.sample(sample)) samples->push_back(sample);
    return {};
  };
  SLUICE_TAKE(const double elapsed,
              lab.timer.time(stream, [&] { return replay.launch(stream); },
                             {[&] { return note_clock(lab, clocks, SmClock::Edge::begin); }, behind}));
  timed.us.push_back(elapsed / replay.launches);
  if (!clocks) return {};
  SLUICE_TRY(lab.stream.synchronize());
  SLUICE_TAKE(const double mhz, lab.clock->mhz());
  timed.sm_mhz.push_back(mhz);
  return {};
}

}  // namespace

Result<Replay> capture_replay(const Lab& lab, const Contender& contender, int copies, int launches) {
  SLUICE_TAKE(Graph graph, Graph::capture(lab.device, lab.stream.get(),
                                          [&] { return launch_many(lab, contender, copies, launches); }));
  const auto owned = std::make_shared<const Graph>(std::move(graph));
  return Replay{.launch = [owned](Stream stream) { return owned->launch(stream); }, .launches = launches};
}

Result<Replay> replay_for(const Lab& lab, const Contender& contender, int copies, double replay_us) {
  SLUICE_TAKE(const double elapsed, lab.timer.time(lab.stream.get(), [&] {
    return launch_many(lab, contender, copies, kProbeLaunches);
  }));
  const double each_us = std::max(elapsed / kProbeLaunches, 0.5);
  const bool is_long = each_us > kLongLaunchUs;
  const double wanted_us = is_long ? std::max(replay_us, kLongReplayUs) : replay_us;
  const int wanted = static_cast<int>(std::min(wanted_us / each_us, 1.0 * kMaxLaunches));
  const int launches = std::min(std::max({wanted, copies, 2}), kMaxLaunches);
  SLUICE_TAKE(Replay replay, capture_replay(lab, contender, copies, launches));
  if (!is_long) return replay;
  replay.least_rest_ms = kLongRestMs;
  SLUICE_TRY(replay.launch(lab.stream.get()));
  SLUICE_TRY(lab.stream.synchronize());
  return replay;
}

Result<std::vector<Timed>> time_in_turn(const Lab& lab, std::span<const Replay> replays,
                                        const Rounds& rounds) {
  std::vector<Timed> times(replays.size());
  size_t turn = 0;
  SLUICE_TRY(for_each_turn(replays.size(), rounds.count, [&](size_t who) {
    const double rest_ms = std::max(rounds.rest_ms, replays[who].least_rest_ms);
    if (rest_ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(rest_ms));
    std::vector<Sample>* samples = turn++ % replays.size() == 0 ? rounds.samples : nullptr;
    return time_replay(lab, replays[who], rounds, samples, times[who]);
  }));
  return times;
}

Result<double> host_cost_us(const Lab& lab, const Contender& contender) {
  std::vector<double> costs;
  for (int i = 0; i < kHostLaunches; ++i) {
    const auto before = std::chrono::steady_clock::now();
    const Result<void> launched = contender.launch(0, lab.stream.get());
    const auto after = std::chrono::steady_clock::now();
    if (!launched) return launched.error();
    costs.push_back(std::chrono::duration<double, std::micro>(after - before).count());
    SLUICE_TRY(lab.stream.synchronize());
  }
  return quantile(costs, 0.5);
}

}  // namespace sluice::bench
