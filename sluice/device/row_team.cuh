// SPDX-License-Identifier: Apache-2.0
// The CTAs of a cluster that share a row, or one CTA alone: each warp's part of a reduction goes to all of
// them, and after one barrier every thread reads all parts. The caller keeps two sets of slots and takes them
// in turn, or has another meeting in between: then what is read is not written before all have read it.
// Used by kernels/quantize.cuh (rows) and kernels/norm.cuh.
#pragma once

#include <sluice/device/ptx/cluster_memory.cuh>
#include <sluice/device/ptx/sync.cuh>

namespace sluice {

struct RowTeam {
  u32 ctas, rank;

  /// By every thread, first thing.
  SLUICE_DEVICE RowTeam() : ctas(ptx::cluster_cta_count()), rank(ptx::cluster_cta_rank()) {
    if (ctas > 1) ptx::cluster_arrive_relaxed();
  }
  /// By every thread, before the first `put`: a CTA that has not begun has no shared memory to write to.
  SLUICE_DEVICE void begin() const {
    if (ctas > 1) ptx::cluster_wait_acquire();
  }
  /// By a whole warp, of whose lanes each has the value: to the slot of every CTA.
  SLUICE_DEVICE void put(u32* slot, u32 value) const {
    const u32 lane = threadIdx.x % 32;
    if (ctas == 1) {
      if (lane == 0) *slot = value;
    } else if (lane < ctas) {
      ptx::store_cluster(ptx::map_to_cta(ptx::shared_address(slot), lane), value);
    }
  }
  /// What was put before is there behind it.
  SLUICE_DEVICE void meet() const {
    if (ctas == 1) {
      __syncthreads();
    } else {
      ptx::cluster_arrive_release();
      ptx::cluster_wait_acquire();
    }
  }
};

}  // namespace sluice
