// SPDX-License-Identifier: Apache-2.0
// The record of a kernel whose unit begins with `#define SLUICE_TIMELINE 1`. For each CTA and launch
// ("visit") it holds the GPU's nanosecond clock (low 32 bits) at a few moments. Pictures of chains need it
// (bench/chain/timeline.h); other kernels contain no trace of it. Read by device/timeline.cuh and by the
// bench.
#pragma once

#include <sluice/spec/base.h>

namespace sluice {

/// 0: the moment never came, or the kernel does not record it. One thread records load and math moments for
/// its role.
enum class Moment : u8 {
  start,          // first instruction
  loads_issued,   // the ring's weights are issued, before the PDL wait; with Wait::weights_first only
  wait_returned,  // griddepcontrol.wait has returned; at once without one
  first_math,     // the first stage has come; in a norm, the sum of squares is known
  ring_read,      // the last stage of the first ring fill has come
  last_load,      // the last load is issued
  exit,           // the last store is issued
  sm,             // no time: timeline_place()
};
inline constexpr int kMoments = 8;

/// Packs SM and grid size. Launches of one kernel may have grids of different sizes: then visit j of a CTA is
/// not launch j.
SLUICE_HD constexpr u32 timeline_place(u32 sm, u32 ctas_of_grid) {
  return (sm + 1) | ctas_of_grid << 16;
}

/// Threads of a CTA that count its launches, each by itself.
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
