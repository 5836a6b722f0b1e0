// SPDX-License-Identifier: Apache-2.0
// Tokens times packed weights, one tile of D per CTA or cluster: D[m][n] = act(scale_x X W^T + bias),
// W = scale * (code - zero). The warps that multiply build WGMMA's A in registers: codes for e4m3 tokens
// (ByteProducts), weights for 16-bit tokens (HalfProducts). Tokens are WGMMA's B.
//
// clang-format off
// Roles (128 threads per math warpgroup, plus 64; plus 128 if registers are reallocated)
//   math warpgroups     each has a strip of 64 outputs and, of the CTA's k, every k_groups-th tile of 128
//   two warps           one thread of each fills stages of 128 k: one loads tokens with TMA, the other the strips'
//                       tiles with flat bulk copies. If registers are reallocated, two idle warps complete their
//                       warpgroup
//
// Barriers           who arrives                                   who waits
//   full[stage]      both load threads (expect), the bytes         the math warps of that k-tile
//   empty[stage]     each of those, when its products have ended   both load threads
//   kBegun           all with a role: barriers are initialised     all but the weight warp, which initialised them
//   kMultiplied      math warps: their last reads of the rings     math warps: before sums overlay the rings
//   kLeft            math warps: their sums are written            math warps: before sums are added up
//   cluster          all, when they have started; then all, when   all: before sums are sent, and before received
//                    they have sent sums                           sums are read
// With a PDL wait (config.overlap), the token thread waits before its first load. Math threads wait before they
// read scales of tokens, and so before they write D. The weight thread need not wait.
// clang-format on
// All barriers start in phase 0; the first wait on an empty barrier uses the parity of the previous phase,
// which counts as complete. Load threads use all stages; a math warpgroup uses every k_groups-th, always the
// same ones. A parity distinguishes a phase only from the next one, and bytes of an earlier tile may arrive
// later. So a warp waits for a stage only if it has itself seen the end of the stage's previous phase. Math
// warps wait for every copy: after their barrier at the end, no copy into the rings is in flight.
//
// No CTA waits for another cluster, the kernel keeps no state between launches, and sums are always added in
// the same order. Launched by run/ops/packed.cc.
#pragma once

#include <sluice/device/dependent_launch.cuh>
#include <sluice/device/packed/byte_products.cuh>
#include <sluice/device/packed/half_products.cuh>
#include <sluice/device/packed/strip_finish.cuh>
#include <sluice/device/packed/strip_loads.cuh>

namespace sluice::packed {

inline constexpr int kBegun = 1, kMultiplied = 2, kLeft = 3;  // the CTA's named barriers

template <StripConfig kConfig, bool k16Bit = is_16bit(kConfig.x)>
struct StripProducts : ByteProducts<kConfig> {
  using ByteProducts<kConfig>::ByteProducts;
};
template <StripConfig kConfig>
struct StripProducts<kConfig, true> : HalfProducts<kConfig> {
  using HalfProducts<kConfig>::HalfProducts;
};

/// The role of a loading warp.
template <StripConfig kConfig>
SLUICE_DEVICE void load(const StripParams& params, const StripPlace<kConfig>& at) {
  using Launch = DependentLaunch<kConfig.overlap>;
  const bool first = at.lane() == 0;
  if (at.loads_tokens()) {
    if (first && params.k_tiles > 0) ptx::prefetch_tensormap(params.map_x);
    __syncwarp();
    ptx::named_barrier_sync(kBegun, busy_threads(kConfig));
    if (first) Launch::prefetch(params);
    Launch::wait();
    if (first) {
      StripLoads<kConfig>::run_tokens(params, at);
      Launch::loaded();
      Launch::hand_off(params);
    }
  } else if (at.loads_weights()) {
    if (first) StripLoads<kConfig>::start(at);
    __syncwarp();
    ptx::named_barrier_arrive(kBegun,
                              busy_threads(kConfig));  // weights are in flight before other warps have
                                                       // started
    Launch::wait_for_weights();
    if (first) StripLoads<kConfig>::run_weights(params, at);
  }
  __syncwarp();
}

template <StripConfig kConfig>
SLUICE_DEVICE void run_strip(const StripParams& params) {
  static_assert(validate(kConfig) == nullptr);
  using S = StripShape<kConfig>;
  using Launch = DependentLaunch<kConfig.overlap>;
  extern __shared__ __align__(1024) u8 smem[];
  Launch::begin();
  if constexpr (kConfig.parts > 1) ptx::cluster_arrive_relaxed();
  const StripPlace<kConfig> at(params, ptx::shared_address(smem));
  StripFinish<kConfig> finish(params, at);

  if (at.multiplies()) {
    if constexpr (moves_registers(kConfig)) ptx::setmaxnreg_inc<math_registers(kConfig)>();
    ptx::named_barrier_sync(kBegun, busy_threads(kConfig));
    finish.fetch_vectors([] { Launch::wait(); });  // while the first tiles are in flight
    typename StripProducts<kConfig>::Sums sums;
    StripProducts<kConfig>(params, at).run(sums);
    ptx::named_barrier_sync(kMultiplied, S::kMathThreads);
    finish.leave(sums);
    ptx::named_barrier_sync(kLeft, S::kMathThreads);
  } else {
    if constexpr (moves_registers(kConfig)) ptx::setmaxnreg_dec<kStripLoadRegisters>();
    load<kConfig>(params, at);
  }
  if constexpr (kConfig.parts > 1) {
    ptx::cluster_wait_acquire();
    if (at.multiplies()) finish.send();
    __syncwarp();
    ptx::cluster_arrive_release();
    ptx::cluster_wait_acquire();
  }
  if (at.multiplies()) finish.store_share();
}

}  // namespace sluice::packed
