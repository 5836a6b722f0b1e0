// SPDX-License-Identifier: Apache-2.0
// The times of a chain's CTAs. Kernels whose source begins with kTimelinePrologue record them
// (spec/timeline.h); this file converts them into times of one layer and medians over layers. Needs no GPU;
// chain/clock.h runs the kernels, which are not those of the benchmark, so their results are compared too.
#pragma once

#include <array>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/timeline.h>

namespace sluice::bench {

inline constexpr const char* kTimelinePrologue = "#define SLUICE_TIMELINE 1\n";
// Variables of a kernel's module. They are not in spec/timeline.h, where each kernel would carry their names.
inline constexpr const char* kTimelineName = "sluice_timeline";               // u32 [visit][CTA][moment]
inline constexpr const char* kTimelineCountsName = "sluice_timeline_counts";  // u32 [role][CTA]
inline constexpr int kTimes = kMoments - 1;                                   // all moments but the SM
inline constexpr i64 kNever = std::numeric_limits<i64>::min();

/// Nanoseconds by Moment; kNever: it did not happen.
struct CtaTimes {
  int sm = -1;
  std::array<i64, kTimes> at{};

  i64 of(Moment moment) const { return at[static_cast<size_t>(moment)]; }
};
struct LaunchTimes {
  std::vector<CtaTimes> ctas;

  i64 first_start() const;
  i64 last_exit() const;
};

/// All launches that the modules recorded (u32 [visit][CTA][moment] each), in order of their beginning, in
/// nanoseconds since the first. This is the chain's order: a launch begins after all CTAs of the one before
/// it have begun.
std::vector<LaunchTimes> launches_of(std::span<const std::vector<u32>> modules);

/// Spread over a launch's CTAs, microseconds.
struct Range {
  double least = 0, median = 0, most = 0;
};
struct StepTimes {
  std::string name;
  i64 weight_bytes = 0;
  /// For each moment that happened, the time since the last exit of the step before: medians over layers.
  std::vector<std::pair<Moment, Range>> since;
  double took_us = 0;     // median time from the last exit of the step before to its own
  LaunchTimes one_layer;  // nanoseconds since the layer began
};

/// The times of layers. A layer begins when the last CTA of the previous layer exits.
struct Timeline {
  int layer = 0;  // the layer shown, whose length is the median
  double layer_us = 0, mean_layer_us = 0;
  i64 tick_ns = 0;  // smallest step of the clock that was seen
  std::vector<StepTimes> steps;
};

/// `names`: a layer's steps, in order. Error internal: the launches are not layers * steps, so some kernels
/// recorded nothing.
Result<Timeline> timeline_of(std::span<const LaunchTimes> launches, std::span<const StepTimes> names);

}  // namespace sluice::bench
