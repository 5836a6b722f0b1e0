// SPDX-License-Identifier: Apache-2.0
// A team: the CTAs of a cluster that share a row, or a single CTA. Each warp puts its part of a reduction
// where every CTA of the team finds it; after one synchronisation every thread reads all parts. Two sets of
// slots alternate. A warp reuses a set only after the synchronisation in between. By then every warp has read
// that set and put into the other one, so each warp must put a value in every turn. With one set there is one
// turn.
// Between CTAs words are sent by st.async, which counts them on the receiver's barrier, because a releasing
// cluster barrier costs a GPU-wide fence. Used by kernels/quantize.cuh (rows), kernels/norm.cuh and
// kernels/route.cuh.
#pragma once

#include <sluice/device/ptx/cluster_memory.cuh>
#include <sluice/device/ptx/mbarrier.cuh>
#include <sluice/device/ptx/sync.cuh>

namespace sluice {

template <u32 kSlots, u32 kSets = 2>
class RowTeam {
 public:
  struct Shared {
    u32 slots[kSets][kSlots];
    u64 full[kSets];  // barriers that count the words of each set; used in teams of several CTAs
  };
  const u32 ctas, rank;    // number of CTAs in the team, and this CTA's rank
  const u32 index, teams;  // the team's index in the grid, and the number of teams

  /// Call from every thread at the start of the kernel.
  SLUICE_DEVICE explicit RowTeam(Shared& shared)
      : ctas(ptx::cluster_cta_count()),
        rank(ptx::cluster_cta_rank()),
        index(ptx::cluster_index()),
        teams(ptx::cluster_count()),
        shared_(shared) {
    if (ctas == 1) return;
    if (threadIdx.x == 0) {
      for (u32 set = 0; set < kSets; ++set) ptx::mbarrier_init(barrier(set), 1);
      ptx::fence_mbarrier_init();
    }
    __syncwarp();
    ptx::cluster_arrive_relaxed();
  }

  /// Call from every thread before its first `put`: the shared memory of a CTA that has not started must not
  /// be written.
  SLUICE_DEVICE void begin() const {
    if (ctas > 1) ptx::cluster_wait_acquire();
  }

  /// Call from a whole warp; `value` must be the same in every lane.
  SLUICE_DEVICE void put(u32 slot, u32 value) {
    const u32 lane = threadIdx.x % 32;
    u32* target = shared_.slots[turn_ % kSets] + slot;
    if (ctas == 1) {
      if (lane == 0) *target = value;
    } else if (lane < ctas) {
      ptx::store_async(ptx::map_to_cta(ptx::shared_address(target), lane), value,
                       ptx::map_to_cta(barrier(turn_ % kSets), lane));
    }
  }
  /// Puts a value of this thread alone, into every CTA of a team of several.
  SLUICE_DEVICE void put_own(u32 slot, u32 value) {
    const u32 target = ptx::shared_address(shared_.slots[turn_ % kSets] + slot);
    for (u32 cta = 0; cta < ctas; ++cta)
      ptx::store_async(ptx::map_to_cta(target, cta), value, ptx::map_to_cta(barrier(turn_ % kSets), cta));
  }

  /// Call from every thread. Waits until this turn's `words` slots are put, and returns their address.
  SLUICE_DEVICE const u32* meet(u32 words) {
    const u32 set = turn_ % kSets;
    if (ctas == 1) {
      __syncthreads();
    } else {
      if (threadIdx.x == 0) ptx::mbarrier_arrive_expect_tx(barrier(set), words * 4);
      ptx::mbarrier_wait_parity(barrier(set), turn_ / kSets % 2);
    }
    ++turn_;
    return shared_.slots[set];
  }

 private:
  SLUICE_DEVICE u32 barrier(u32 set) const { return ptx::shared_address(&shared_.full[set]); }

  Shared& shared_;
  u32 turn_ = 0;
};

}  // namespace sluice
