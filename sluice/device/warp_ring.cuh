// SPDX-License-Identifier: Apache-2.0
// A team's own ring of stages in shared memory, filled by its cp.async: nobody else reads or writes it. The
// team is a warp, which needs no barrier, or a warpgroup. What a stage holds is the copier's and the reader's
// matter. Used by kernels/plain.cuh and kernels/narrow.cuh.
#pragma once

#include <sluice/device/ptx/async_copy.cuh>

namespace sluice {

template <int kStages, int kStageBytes>
class WarpRing {
 public:
  /// `count`: stages that are filled and read in all.
  SLUICE_DEVICE WarpRing(u32 first, int count) : first_(first), count_(count) {}

  /// All copies that the ring has room for but one; copy(stage) brings the next.
  template <class Copy>
  SLUICE_DEVICE void fill(const Copy& copy) const {
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) {
      if (i < count_) copy(first_ + i * kStageBytes);
      ptx::commit_copies();
    }
  }

  /// The same in two steps: early(stage, i) for each, `between`, then late(stage) for each; what is late
  /// completes behind all that is early.
  template <class Early, class Between, class Late>
  SLUICE_DEVICE void fill_in_two(const Early& early, const Between& between, const Late& late) const {
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i)
      if (i < count_) early(first_ + i * kStageBytes, i);
    between();
    fill(late);
  }

  /// Each stage in turn: read(stage), while the copies of those behind it are on their way.
  template <class Copy, class Read>
  SLUICE_DEVICE void run(const Copy& copy, const Read& read) const {
    run(copy, read, [] {});
  }
  /// all_issued() once, when the last copy is on its way; of a ring without copies never.
  template <class Copy, class Read, class Issued>
  SLUICE_DEVICE void run(const Copy& copy, const Read& read, const Issued& all_issued) const {
    run(copy, read, all_issued, [] { __syncwarp(); });
  }
  /// meet(): all of the team's copies have come, and all have read what the next ones replace.
  template <class Copy, class Read, class Issued, class Meet>
  SLUICE_DEVICE void run(const Copy& copy, const Read& read, const Issued& all_issued,
                         const Meet& meet) const {
    u32 stage = first_, refill = first_ + (kStages - 1) * kStageBytes;
    const u32 end = first_ + kStages * kStageBytes;
#pragma unroll 1
    for (int i = 0; i < count_; ++i) {
      ptx::wait_copies<kStages - 2>();
      meet();
      if (i + kStages - 1 < count_) copy(refill);
      ptx::commit_copies();
      if (i == max(0, count_ - kStages)) all_issued();
      read(stage);
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
