// SPDX-License-Identifier: Apache-2.0
#include "bench/chain/timeline.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include <sluice/tools.h>

namespace sluice::bench {
namespace {

constexpr size_t kCtaWords = kMoments, kVisitWords = kCtaWords * kTimelineCtas;
constexpr size_t kStart = static_cast<size_t>(Moment::start), kSm = static_cast<size_t>(Moment::sm);

/// Returns time - since. Both are the low 32 bits of a nanosecond clock, which wrap every four seconds. They
/// must be less than two seconds apart.
i64 nanoseconds_since(u32 since, u32 time) {
  return static_cast<i32>(time - since);
}

template <class Use>
void each_cta(std::span<const std::vector<u32>> modules, const Use& use) {
  for (const std::vector<u32>& words : modules)
    for (size_t cta = 0; cta < kTimelineCtas; ++cta)
      for (size_t visit = 0; visit * kVisitWords < words.size(); ++visit) {
        const u32* at = &words[visit * kVisitWords + cta * kCtaWords];
        if (at[kStart] != 0) use(at, cta);
      }
}

CtaTimes times_of(const u32* words, u32 zero) {
  CtaTimes times{.sm = static_cast<int>(words[kSm] & 0xFFFF) - 1};
  for (size_t i = 0; i < kTimes; ++i)
    times.at[i] = words[i] == 0 ? kNever : nanoseconds_since(zero, words[i]);
  return times;
}

std::optional<Range> range_of(const LaunchTimes& launch, Moment moment, i64 since) {
  std::vector<double> us;
  for (const CtaTimes& cta : launch.ctas)
    if (cta.of(moment) != kNever) us.push_back(static_cast<double>(cta.of(moment) - since) / 1000);
  if (us.empty()) return {};
  return Range{quantile(us, 0), quantile(us, 0.5), quantile(us, 1)};
}

Range median_of(const std::vector<Range>& ranges) {
  const auto of = [&](double Range::*part) {
    std::vector<double> values;
    for (const Range& range : ranges) values.push_back(range.*part);
    return quantile(values, 0.5);
  };
  return {of(&Range::least), of(&Range::median), of(&Range::most)};
}

i64 tick_of(std::span<const LaunchTimes> launches) {
  i64 tick = 0;
  for (const LaunchTimes& launch : launches)
    for (const CtaTimes& cta : launch.ctas)
      for (const i64 time : cta.at)
        if (time != kNever) tick = std::gcd(tick, time);
  return tick;
}

}  // namespace

i64 LaunchTimes::first_start() const {
  i64 first = std::numeric_limits<i64>::max();
  for (const CtaTimes& cta : ctas) first = std::min(first, cta.of(Moment::start));
  return first;
}
i64 LaunchTimes::last_exit() const {
  i64 last = kNever;
  for (const CtaTimes& cta : ctas) last = std::max(last, cta.of(Moment::exit));
  return last;
}

std::vector<LaunchTimes> launches_of(std::span<const std::vector<u32>> modules) {
  std::optional<u32> zero;
  each_cta(modules, [&](const u32* at, size_t) {
    if (!zero || nanoseconds_since(*zero, at[kStart]) < 0) zero = at[kStart];
  });
  std::vector<LaunchTimes> launches;
  for (const std::vector<u32>& words : modules) {
    std::map<u32, std::vector<LaunchTimes>> by_grid;  // launches by their number of CTAs
    std::map<std::pair<u32, size_t>, size_t> visits;  // (number of CTAs, CTA) -> launches seen so far
    each_cta(std::span(&words, 1), [&](const u32* at, size_t cta) {
      const u32 grid = at[kSm] >> 16;
      const size_t visit = visits[{grid, cta}]++;
      std::vector<LaunchTimes>& own = by_grid[grid];
      if (own.size() <= visit) own.resize(visit + 1);
      own[visit].ctas.push_back(times_of(at, *zero));
    });
    for (auto& [grid, own] : by_grid)
      for (LaunchTimes& launch : own) launches.push_back(std::move(launch));
  }
  std::sort(launches.begin(), launches.end(),
            [](const auto& a, const auto& b) { return a.first_start() < b.first_start(); });
  return launches;
}

Result<Timeline> timeline_of(std::span<const LaunchTimes> launches, std::span<const StepTimes> names) {
  const size_t steps = names.size(), layers = steps == 0 ? 0 : launches.size() / steps;
  if (layers < 3 || launches.size() != layers * steps)
    return Error{ErrorCode::internal,
                 std::to_string(launches.size()) +
                     " launches told their times, which are not three or more layers of " +
                     std::to_string(steps) + " steps: a kernel without TimelineMarks, or too few layers"};
  Timeline result{.tick_ns = tick_of(launches)};
  // The first and the last layer are left out: each lacks a neighbour.
  std::vector<double> lengths;
  for (size_t layer = 1; layer + 1 < layers; ++layer)
    lengths.push_back(static_cast<double>(launches[(layer + 1) * steps - 1].last_exit() -
                                          launches[layer * steps - 1].last_exit()) /
                      1000);
  result.mean_layer_us =
      std::accumulate(lengths.begin(), lengths.end(), 0.0) / static_cast<double>(lengths.size());
  const double middle = quantile(lengths, 0.5);
  const auto nearest = std::min_element(lengths.begin(), lengths.end(), [&](double a, double b) {
    return std::abs(a - middle) < std::abs(b - middle);
  });
  result.layer = static_cast<int>(nearest - lengths.begin()) + 1;
  result.layer_us = *nearest;
  const i64 begin = launches[static_cast<size_t>(result.layer) * steps - 1].last_exit();
  for (size_t step = 0; step < steps; ++step) {
    StepTimes times = names[step];
    times.one_layer = launches[static_cast<size_t>(result.layer) * steps + step];
    for (CtaTimes& cta : times.one_layer.ctas)
      for (i64& time : cta.at)
        if (time != kNever) time -= begin;
    std::vector<double> took;
    for (int moment = 0; moment < kTimes; ++moment) {
      std::vector<Range> ranges;
      for (size_t layer = 1; layer + 1 < layers; ++layer) {
        const size_t at = layer * steps + step;
        const i64 before = launches[at - 1].last_exit();
        if (const auto range = range_of(launches[at], static_cast<Moment>(moment), before))
          ranges.push_back(*range);
        if (moment == 0) took.push_back(static_cast<double>(launches[at].last_exit() - before) / 1000);
      }
      if (!ranges.empty()) times.since.emplace_back(static_cast<Moment>(moment), median_of(ranges));
    }
    times.took_us = quantile(took, 0.5);
    result.steps.push_back(std::move(times));
  }
  return result;
}

}  // namespace sluice::bench
