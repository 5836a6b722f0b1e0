// SPDX-License-Identifier: Apache-2.0
// One thread's time marks (spec/timeline.h). They stay in registers and are written just before the thread
// exits, so that they disturb the kernel little. Without SLUICE_TIMELINE everything here compiles to nothing,
// and kernels have the same machine code as without this file.
#pragma once

#include <sluice/spec/timeline.h>
#include <sluice/device/ptx/special_registers.cuh>

#ifdef SLUICE_TIMELINE
extern "C" __device__ sluice::u32 sluice_timeline[sluice::kTimelineVisits][sluice::kTimelineCtas]
                                                 [sluice::kMoments];
extern "C" __device__ sluice::u32 sluice_timeline_counts[sluice::kTimelineRoles][sluice::kTimelineCtas];
sluice::u32 __device__ sluice_timeline[sluice::kTimelineVisits][sluice::kTimelineCtas][sluice::kMoments];
sluice::u32 __device__ sluice_timeline_counts[sluice::kTimelineRoles][sluice::kTimelineCtas];

namespace sluice {

class TimelineMarks {
 public:
  SLUICE_DEVICE void mark(Moment moment) { times_[static_cast<int>(moment)] = now(); }
  /// Marks that a stage has arrived. `first_filled`: number of stages in the ring's first fill.
  SLUICE_DEVICE void mark_stage(int first_filled) {
    ++stages_;
    if (stages_ == 1) mark(Moment::first_math);
    if (stages_ == first_filled) mark(Moment::ring_read);
  }
  /// Takes the number of this visit (launch) of the CTA, in thread `mine` only. write() waits for the result
  /// of the atomic. Call it where the thread has nothing better to do.
  SLUICE_DEVICE void claim(bool mine, int role = 0) {
    if (mine && cta() < kTimelineCtas) visit_ = atomicAdd(&sluice_timeline_counts[role][cta()], 1u);
  }
  /// Writes this thread's marks. If several threads write the exit, the last one counts.
  SLUICE_DEVICE void write() const {
    if (visit_ >= kTimelineVisits) return;
    u32* to = sluice_timeline[visit_][cta()];
#pragma unroll
    for (int i = 0; i < kMoments - 2; ++i)
      if (times_[i] != 0) to[i] = times_[i];
    if (times_[kExit] != 0) atomicMax(to + kExit, times_[kExit]);
    to[static_cast<int>(Moment::sm)] = timeline_place(ptx::sm_number(), gridDim.x * gridDim.y);
  }

 private:
  static constexpr int kExit = static_cast<int>(Moment::exit);
  SLUICE_DEVICE static u32 cta() {
    return blockIdx.y * gridDim.x + blockIdx.x;
  }
  SLUICE_DEVICE static u32 now() {
    return static_cast<u32>(ptx::nanoseconds());
  }

  u32 times_[kMoments - 1] = {};
  u32 visit_ = ~0u;
  int stages_ = 0;
};

}  // namespace sluice
#else
namespace sluice {

class TimelineMarks {
 public:
  SLUICE_DEVICE void mark(Moment) {}
  SLUICE_DEVICE void mark_stage(int) {}
  SLUICE_DEVICE void claim(bool, int = 0) {}
  SLUICE_DEVICE void write() const {}
};

}  // namespace sluice
#endif
