// SPDX-License-Identifier: Apache-2.0
// The timeline of a kernel whose unit begins with `#define SLUICE_TIMELINE 1`. Per CTA and launch ("visit")
// it records the GPU's nanosecond clock (low 32 bits) at a few moments. It is used for plots of chains
// (bench/chain/timeline.h); other kernels contain no code for it. Read by device/timeline.cuh and by the
// bench.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// Recorded moments. 0: the kernel did not reach the moment, or does not record it. One thread per role
/// records the load or math moments.
enum class Moment : u8 {
  start,          // first instruction
  loads_issued,   // the ring's weights are issued, before the PDL wait; only with Wait::weights_first
  wait_returned,  // griddepcontrol.wait has returned (at once in a kernel without a wait)
  first_math,     // the first stage has arrived; in a norm, the sum of squares is known
  ring_read,      // the last stage of the first ring fill has arrived
  last_load,      // the last load is issued
  exit,           // the last store is issued
  sm,             // not a time: timeline_place()
};
inline constexpr int kMoments = 8;

/// Packs SM and grid size into one word. Launches of one kernel may have grids of different sizes; then visit
/// j of a CTA is not launch j.
SLUICE_HD constexpr u32 timeline_place(u32 sm, u32 ctas_of_grid) {
  return (sm + 1) | ctas_of_grid << 16;
}

/// Threads of a CTA that count its launches, each separately.
inline constexpr int kTimelineRoles = 3;
inline constexpr int kTimelineVisits = 128, kTimelineCtas = 1024;  // later visits and CTAs are not recorded

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
