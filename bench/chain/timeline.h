// SPDX-License-Identifier: Apache-2.0
// Start and end times of a chain's CTAs. Kernels whose source begins with kTimelinePrologue record them
// (spec/timeline.h). This file converts them into the times of one layer and into medians over layers; it
// needs no GPU. chain/clock.h runs the kernels. They differ from the benchmark's kernels, so their results
// are compared too.
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
// Names of variables in a kernel's module. They are not in spec/timeline.h, because every kernel's source
// would then contain them.
inline constexpr const char* kTimelineName = "sluice_timeline";               // u32 [visit][CTA][moment]
inline constexpr const char* kTimelineCountsName = "sluice_timeline_counts";  // u32 [role][CTA]
inline constexpr int kTimes = kMoments - 1;  // all moments except `sm`, which is no time
inline constexpr i64 kNever = std::numeric_limits<i64>::min();

/// Time of each Moment in nanoseconds; kNever if it did not happen.
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

/// Returns all launches that the modules recorded, by start time, in nanoseconds since the first start. Each
/// module is u32 [visit][CTA][moment]. Start order is the chain's order, because a launch begins after all
/// CTAs of the previous one have begun.
std::vector<LaunchTimes> launches_of(std::span<const std::vector<u32>> modules);

/// Minimum, median and maximum over a launch's CTAs, in microseconds.
struct Range {
  double least = 0, median = 0, most = 0;
};
struct StepTimes {
  std::string name;
  i64 weight_bytes = 0;
  /// For each moment that happened: the time since the last CTA of the previous step exited. Medians over
  /// layers.
  std::vector<std::pair<Moment, Range>> since;
  double took_us = 0;     // median time from the last exit of the previous step to the last exit of this one
  LaunchTimes one_layer;  // nanoseconds since the start of the layer
};

/// The timeline of a chain. A layer begins when the last CTA of the previous layer exits.
struct Timeline {
  int layer = 0;  // index of the layer shown, which has the median duration
  double layer_us = 0, mean_layer_us = 0;
  i64 tick_ns = 0;  // resolution of the clock, estimated from the recorded times
  std::vector<StepTimes> steps;
};

/// Assigns launches to steps. `names`: the steps of a layer, in order. Error internal: there are not layers *
/// steps launches, so some kernels recorded nothing.
Result<Timeline> timeline_of(std::span<const LaunchTimes> launches, std::span<const StepTimes> names);

}  // namespace sluice::bench
