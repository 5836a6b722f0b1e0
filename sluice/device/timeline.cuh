// SPDX-License-Identifier: Apache-2.0
// One thread's notes of when it came by (spec/timeline.h): kept in registers and written when it is about to
// leave, so that the kernel is disturbed little. Without SLUICE_TIMELINE all of it is nothing, and kernels
// have the machine code they have without this file.
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
  /// A stage has come; `first_filled` are those of the ring's first filling.
  SLUICE_DEVICE void mark_stage(int first_filled) {
    ++stages_;
    if (stages_ == 1) mark(Moment::first_math);
    if (stages_ == first_filled) mark(Moment::ring_read);
  }
  /// Finds out which visit of this CTA this is, by thread `mine` alone: an atomic's way to L2 and back, for
  /// which nothing waits until write(). Where the thread has nothing better to do.
  SLUICE_DEVICE void claim(bool mine, int role = 0) {
    if (mine && cta() < kTimelineCtas) visit_ = atomicAdd(&sluice_timeline_counts[role][cta()], 1u);
  }
  /// What this thread has marked. Of several threads' exits the last counts.
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
