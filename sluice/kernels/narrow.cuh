// SPDX-License-Identifier: Apache-2.0
// Few tokens times packed weights: D[m][n] = act(X W^T + bias), W = scale * (code - zero).
//
// | warp        | does                                                                                     |
// | every one   | copies its own k-tiles into its own ring, expands codes, multiplies (mma.sync), scales  |
// | all, at end | add up the warps' sums through shared memory, then those of the cluster's CTAs          |
//
// | meeting point                     | who            | what it orders                                     |
// | wait_copies, __syncwarp           | a warp         | a stage's bytes before its reads, its reads before |
// |                                   |                | the copies that replace them                       |
// | __syncthreads, twice              | a CTA          | last reads of rings, sums, reads of the sums       |
// | cluster: arrive first thing, wait | its CTAs       | a CTA has begun before others write to its memory  |
// | before the first push             |                |                                                    |
// | cluster: arrive, wait             | the same       | pushed sums before they are read                   |
//
// No CTA waits for one outside of its cluster, no memory is needed between launches, and sums are always
// added in the same order. Launched by host/narrow_launch.cc.
#pragma once

#include <sluice/device/mixed/copier.cuh>
#include <sluice/device/mixed/finish.cuh>

namespace sluice::mixed {

template <NarrowConfig kConfig>
SLUICE_DEVICE void run_narrow(const NarrowParams& params) {
  static_assert(validate(kConfig) == nullptr);
  using S = Shape<kConfig>;
  constexpr int kStages = kConfig.stages;
  extern __shared__ __align__(128) u8 smem[];
  const u32 base = ptx::shared_address(smem);
  WarpSums<warp_tile(kConfig)>::announce();
  const Place at = place_of<kConfig>(params, base);

  Copier<kConfig> copier(params, at);
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < at.count) copier.copy(at.ring + i * S::kStageBytes, at.lane);
    ptx::commit_copies();
  }
  TileSums<kConfig> sums(params, at);
  u32 stage = at.ring, refill = at.ring + (kStages - 1) * S::kStageBytes;
  const u32 end = at.ring + kStages * S::kStageBytes;
#pragma unroll 1
  for (int i = 0; i < at.count; ++i) {
    ptx::wait_copies<kStages - 2>();
    __syncwarp();
    if (i + kStages - 1 < at.count) copier.copy(refill, at.lane);
    ptx::commit_copies();
    sums.add_tile(stage, at);
    refill = stage;
    stage += S::kStageBytes;
    if (stage == end) stage = at.ring;
  }
  Finish<kConfig>(params, at).run(sums, base);
}

}  // namespace sluice::mixed
