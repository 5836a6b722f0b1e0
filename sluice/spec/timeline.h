// SPDX-License-Identifier: Apache-2.0
// What a kernel writes down when its unit begins with `#define SLUICE_TIMELINE 1`: for each of its CTAs and
// each launch ("visit") of theirs the GPU's nanosecond clock (low 32 bits) at a few moments. For pictures of
// chains (bench/chain/timeline.h); all other kernels have nothing of it. Read by device/timeline.cuh and by
// the bench.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// 0: it never came, or the kernel does not tell. Those of load and math are of one thread each, not of all.
enum class Moment : u8 {
  start,          // first instruction
  loads_issued,   // the ring's weights, before the wait; with Wait::weights_first alone
  wait_returned,  // from griddepcontrol.wait; at once without one
  first_math,     // the first stage has come; of a norm: the sum of squares is known
  ring_read,      // so has the last of those that were issued first
  last_load,      // is issued
  exit,           // the last store is issued
  sm,             // no time: timeline_place()
};
inline constexpr int kMoments = 8;

/// Launches of one kernel may have grids of different sizes: then visit j of a CTA is not launch j.
SLUICE_HD constexpr u32 timeline_place(u32 sm, u32 ctas_of_grid) {
  return (sm + 1) | ctas_of_grid << 16;
}

/// Threads of a CTA that count its launches, each for itself.
inline constexpr int kTimelineRoles = 3;
inline constexpr int kTimelineVisits = 128, kTimelineCtas = 1024;  // those behind are not written down

SLUICE_HD constexpr const char* name_of(Moment moment) {
  switch (moment) {
    case Moment::start: return "start";
    case Moment::loads_issued: return "loads_issued";
    case Moment::wait_returned: return "wait_returned";
    case Moment::first_math: return "first_math";
    case Moment::ring_read: return "ring_read";
    case Moment::last_load: return "last_load";
    case Moment::exit: return "exit";
    case Moment::sm: return "sm";
  }
  return "?";
}

}  // namespace sluice
