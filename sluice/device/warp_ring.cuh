// SPDX-License-Identifier: Apache-2.0
// A team's ring of stages in shared memory, filled by the team's own cp.async; no other team reads or writes
// it. A team is a warp, which needs no barrier, or a warpgroup. The copier and the reader define a stage's
// contents. Used by kernels/plain.cuh and kernels/narrow.cuh.
#pragma once

#include <sluice/device/ptx/async_copy.cuh>

namespace sluice {

template <int kStages, int kStageBytes>
class WarpRing {
 public:
  /// `count`: total number of stages that are filled and read.
  SLUICE_DEVICE WarpRing(u32 first, int count) : first_(first), count_(count) {}

  /// Issues copies for all stages of the ring but one; copy(stage) copies the next stage.
  template <class Copy>
  SLUICE_DEVICE void fill(const Copy& copy) const {
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) {
      if (i < count_) copy(first_ + i * kStageBytes);
      ptx::commit_copies();
    }
  }

  /// fill() in two steps: early(stage, i) for each stage, `between`, then late(stage) for each. Late copies
  /// complete after all early ones.
  template <class Early, class Between, class Late>
  SLUICE_DEVICE void fill_in_two(const Early& early, const Between& between, const Late& late) const {
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i)
      if (i < count_) early(first_ + i * kStageBytes, i);
    between();
    fill(late);
  }

  /// Reads each stage in turn with read(stage), while the copies of later stages are in flight.
  template <class Copy, class Read>
  SLUICE_DEVICE void run(const Copy& copy, const Read& read) const {
    run(copy, read, [] {});
  }
  /// run(), with all_issued() called once after the last copy is issued; never called if there are no copies.
  template <class Copy, class Read, class Issued>
  SLUICE_DEVICE void run(const Copy& copy, const Read& read, const Issued& all_issued) const {
    run<false>(copy, read, all_issued, [] { __syncwarp(); });
  }
  /// meet() must return when all of the team's copies have arrived and all threads have read the stage that
  /// the next copies overwrite. With kReadsFirst, read() is called before the next copies are issued; use it
  /// if read() only issues work.
  template <bool kReadsFirst, class Copy, class Read, class Issued, class Meet>
  SLUICE_DEVICE void run(const Copy& copy, const Read& read, const Issued& all_issued,
                         const Meet& meet) const {
    u32 stage = first_, refill = first_ + (kStages - 1) * kStageBytes;
    const u32 end = first_ + kStages * kStageBytes;
#pragma unroll 1
    for (int i = 0; i < count_; ++i) {
      ptx::wait_copies<kStages - 2>();
      meet();
      if constexpr (kReadsFirst) read(stage);
      if (i + kStages - 1 < count_) copy(refill);
      ptx::commit_copies();
      if (i == max(0, count_ - kStages)) all_issued();
      if constexpr (!kReadsFirst) read(stage);
      refill = stage;
      stage += kStageBytes;
      if (stage == end) stage = first_;
    }
  }

 private:
  u32 first_;
  int count_;
};

}  // namespace sluice
