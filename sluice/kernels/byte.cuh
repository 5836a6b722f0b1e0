// SPDX-License-Identifier: Apache-2.0
// e4m3 tokens times packed weights: D[m][n] = act(scale_x X W^T + bias), W = scale * (code - zero). Codes are
// made e4m3 in registers, by the warps that multiply, and are WGMMA's A; tokens are its B.
//
// clang-format off
// Roles (128 threads for each math warpgroup, and 32)
//   math warpgroups   each a strip of 64 outputs, and of the CTA's k every k_groups-th tile of 128
//   load warp         one thread fills stages: tokens with TMA, strips' tiles as they lie with flat copies
//
// Barriers           who arrives                                   who waits
//   full[stage]      load thread (expect), the bytes               all math warps
//   empty[stage]     each math warp, when its products have ended  load thread
//   CTA, at start    all: barriers are there                       those who fill the first stages
//   CTA, at end      math warps: the rings are done with           math warps: before sums are laid over them
//   cluster (CTA)    all: sums lie in shared memory                all: before others' sums are read
//   cluster          all: sums have been read                      all: before a CTA leaves
// clang-format on
// All start in phase 0; a first wait on an empty barrier uses the parity of the phase before, which counts as
// complete. Every role walks the same stages. Every copy is waited for by math warps: when they have met at
// the end no byte is on its way into the rings.
//
// No CTA waits for one outside of its cluster, no memory is needed between launches, and sums are always
// added in the same order. Launched by host/byte_launch.cc.
#pragma once

#include <sluice/device/mixed/byte_finish.cuh>
#include <sluice/device/mixed/byte_loads.cuh>
#include <sluice/device/mixed/byte_products.cuh>

namespace sluice::mixed {

template <ByteConfig kConfig>
SLUICE_DEVICE void run_byte(const ByteParams& params) {
  static_assert(validate(kConfig) == nullptr);
  using S = ByteShape<kConfig>;
  extern __shared__ __align__(1024) u8 smem[];
  const BytePlace<kConfig> at(params, ptx::shared_address(smem));

  if (at.loads_tokens() && at.lane() == 0) {
    if (params.k_tiles > 0) ptx::prefetch_tensormap(params.map_x);
    ByteLoads<kConfig>::start(at);
  }
  __syncthreads();
  if (at.multiplies()) {
    float sums[S::kTokens / 2] = {};
    ByteProducts<kConfig>(params, at).run(sums);
    ptx::named_barrier_sync(1, S::kMathThreads);
    ByteFinish<kConfig>(params, at).leave(sums);
  } else {
    if (at.lane() == 0) {
      if (at.loads_tokens())
        ByteLoads<kConfig>::run_tokens(params, at);
      else
        ByteLoads<kConfig>::run_weights(params, at);
    }
    __syncwarp();
  }
  if constexpr (kConfig.parts > 1) {
    ptx::cluster_arrive_release();
    ptx::cluster_wait_acquire();
  } else {
    __syncthreads();
  }
  if (at.multiplies()) ByteFinish<kConfig>(params, at).store_share();
  if constexpr (kConfig.parts > 1) {
    __syncwarp();
    ptx::cluster_sync_relaxed();
  }
}

}  // namespace sluice::mixed
