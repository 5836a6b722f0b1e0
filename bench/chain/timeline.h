// SPDX-License-Identifier: Apache-2.0
// What the CTAs of a chain did when: from what kernels write down whose units begin with kTimelinePrologue
// (spec/timeline.h) to the times of one layer, and of all layers together. The timed kernels are others, so
// they are held to the same bits. Pure but for chain/clock.h, which runs them.
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
// The variables of a kernel's module; not in spec/timeline.h, where every kernel would carry their names.
inline constexpr const char* kTimelineName = "sluice_timeline";               // u32 [visit][CTA][moment]
inline constexpr const char* kTimelineCountsName = "sluice_timeline_counts";  // u32 [role][CTA]
inline constexpr int kTimes = kMoments - 1;                                   // all but the SM
inline constexpr i64 kNever = std::numeric_limits<i64>::min();

/// Nanoseconds, by Moment; kNever: it did not come.
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

/// All launches that one or more modules wrote down (u32 [visit][CTA][moment] each) in the order in which
/// they began, which is the chain's: a launch begins when all CTAs of the one before it have, at the
/// earliest. Nanoseconds since the first began.
std::vector<LaunchTimes> launches_of(std::span<const std::vector<u32>> modules);

/// Over the CTAs of a launch, microseconds.
struct Range {
  double least = 0, median = 0, most = 0;
};
struct StepTimes {
  std::string name;
  i64 weight_bytes = 0;
  /// Of every moment, since the last exit of the step before: medians over the layers; names of those that
  /// came.
  std::vector<std::pair<Moment, Range>> since;
  double took_us = 0;     // from the last exit of the step before to its own, likewise
  LaunchTimes one_layer;  // nanoseconds since the layer's begin
};

/// A layer begins with the last exit of the layer before it.
struct Timeline {
  int layer = 0;  // the one of the times, whose length is the median
  double layer_us = 0, mean_layer_us = 0;
  i64 tick_ns = 0;  // smallest step of the clock that was seen
  std::vector<StepTimes> steps;
};

/// `names`: of a layer's steps, in order. Error internal: not as many launches as layers * steps, so that
/// some kernels told nothing.
Result<Timeline> timeline_of(std::span<const LaunchTimes> launches, std::span<const StepTimes> names);

}  // namespace sluice::bench
