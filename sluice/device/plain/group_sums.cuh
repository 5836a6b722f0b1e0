// SPDX-License-Identifier: Apache-2.0
// A warpgroup's sums of a tile by WGMMA, with both operands in its stages (group_copier.cuh). While a stage's
// products are in flight, the copies of a later stage are issued.
#pragma once

#include <sluice/spec/plain.h>
#include <sluice/device/math/wgmma_ss.cuh>
#include <sluice/device/ptx/sync.cuh>
#include <sluice/device/ptx/tma.cuh>

namespace sluice::plain {

/// The config with A and B swapped: weights are WGMMA's A.
SLUICE_HD constexpr KernelConfig with_operands_swapped(KernelConfig c) {
  const DType a = c.a;
  c.a = c.b;
  c.b = a;
  return c;
}

template <KernelConfig kConfig>
class GroupSums {
  static constexpr int kWaves = plain_waves(kConfig), kColumns = stage_columns(kConfig);
  static constexpr int kTokenBlocks = kConfig.tile.m / 8;

 public:
  float sums[kWaves][kTokenBlocks][4];  // set by finish()

  SLUICE_DEVICE GroupSums() { products_.clear(); }

  /// Call before a stage is read. On return all threads' copies of it are visible to WGMMA, and no thread
  /// reads the previous stage any more. `team`: index in the CTA.
  SLUICE_DEVICE void meet(int team) {
    ptx::fence_proxy_async();
    wait();
    ptx::named_barrier_sync(1 + team, kWarpgroupThreads);
  }
  SLUICE_DEVICE void add_tile(u32 stage, int) {
    __syncwarp();  // wgmma needs a whole warp, and barrier.sync without .aligned does not converge one
    WgmmaSs<with_operands_swapped(kConfig)>::issue(
        products_, stage, stage + stage_k_tiles(kConfig) * kConfig.tile.n * kPlainRowBytes, /*fresh=*/false);
  }
  /// Keeps the products of this warp's rows with the tokens of their own k-tile.
  SLUICE_DEVICE void finish() {
    wait();
    const int own = static_cast<int>(threadIdx.x) / 32 % 4 / plain_tile(kConfig).beside;
#pragma unroll
    for (int unit = 0; unit < stage_k_tiles(kConfig); ++unit)
      if (unit == own) take(unit);
  }

 private:
  SLUICE_DEVICE void wait() {
    __syncwarp();  // thread 0 may have prefetched, or triggered dependents
    ptx::wgmma_wait_group<0>();
    products_.pin();
  }
  SLUICE_DEVICE void take(int unit) {
#pragma unroll
    for (int wave = 0; wave < kWaves; ++wave)
#pragma unroll
      for (int j = 0; j < kTokenBlocks; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sums[wave][j][i] = products_.values[wave][4 * (unit * kTokenBlocks + j) + i];
  }

  Accumulator<kWaves, kColumns> products_;
};

}  // namespace sluice::plain
