// SPDX-License-Identifier: Apache-2.0
// Many tokens times packed weights: D[m][n] = act(X W^T + bias), W = scale * (code - zero). The warps that
// multiply build WGMMA's A in registers from packed weights; tokens are WGMMA's B.
//
// clang-format off
// Roles (384 threads; kWideThreads)
//   warpgroup 0, thread 0    tokens   fills stages of 64 k with TMA
//   warpgroup 0, thread 32   weights  fills stages of 128 k (two strips' tiles) with flat bulk copies
//   warpgroups 1, 2          math     a strip of 64 outputs each: weights to registers, WGMMA, epilogue, store
//
// Barriers           who arrives                                    who waits
//   x_full[stage]    token thread (expect), TMA (the bytes, from    both math groups
//                    both CTAs of a cluster along n)
//   x_empty[stage]   each math warp, at both CTAs that send it      token thread
//                    tokens, when its products have ended
//   w_full[stage]    weight thread (expect), the bytes              both math groups
//   w_empty[stage]   each math warp, when it has read its strip     weight thread
//   cluster          all, at the start and at the end               all: no CTA exits while its peer may signal it
// clang-format on
// All barriers start in phase 0; the first wait on an empty barrier uses the parity of the previous phase,
// which counts as complete. Every role iterates over the same tiles and k-tiles, so positions in the rings
// need no communication.
//
// With a PDL wait (config.overlap), the token thread waits before its first copy. Math threads wait before
// their first tile, and so before they write D. The weight thread need not wait.
//
// Launched by run/ops/packed.cc, with as many clusters as fit on the GPU. No CTA waits for another cluster.
#pragma once

#include <sluice/device/dependent_launch.cuh>
#include <sluice/device/packed/wide_finish.cuh>
#include <sluice/device/packed/wide_loads.cuh>
#include <sluice/device/packed/wide_products.cuh>

namespace sluice::packed {

template <WideConfig kConfig>
SLUICE_DEVICE void run_wide(const WideParams& params) {
  static_assert(validate(kConfig) == nullptr);
  using Launch = DependentLaunch<kConfig.overlap>;
  extern __shared__ __align__(1024) u8 smem[];
  Launch::begin();
  const WidePlace<kConfig> at(params, ptx::shared_address(smem));

  if (threadIdx.x == 0) {
    TokenLoader<kConfig>::start(params, at);
    Launch::prefetch(params);
  }
  Launch::wait_for_weights();
  if (threadIdx.x == 32) WeightLoader<kConfig>::start(params, at);
  __syncwarp();
  if constexpr (kConfig.cluster_n > 1)
    ptx::cluster_sync_relaxed();
  else
    __syncthreads();

  if (at.role == 0) {
    ptx::setmaxnreg_dec<kWideLoadRegisters>();
    if (threadIdx.x == 0) {
      Launch::wait();
      TokenLoader<kConfig>::run(params, at);
      Launch::loaded();
      Launch::hand_off(params);
    }
    if (threadIdx.x == 32) WeightLoader<kConfig>::run(params, at);
    __syncwarp();
  } else {
    ptx::setmaxnreg_inc<kWideMathRegisters>();
    Launch::wait();
    WideProducts<kConfig> products(at);
    WideFinish<kConfig> finish(params, at);
    for (int index = at.first_index; index < at.tiles(params); index += at.step) {
      const WideTile tile = at.tile(params, index);
      float sums[kConfig.tokens / 2];
      products.run(params, tile, sums);
      finish.run(tile, sums);
    }
    finish.end();
    __syncwarp();
  }
  if constexpr (kConfig.cluster_n > 1) {
    ptx::cluster_arrive_release();  // the peer's x_empty has this CTA's arrivals, so the peer may exit
    ptx::cluster_wait_acquire();
  }
}

}  // namespace sluice::packed
