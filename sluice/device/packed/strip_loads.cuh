// SPDX-License-Identifier: Apache-2.0
// The two threads that fill the ring of kernels/strip.cuh. One copies tokens by TMA, in boxes of 128 bytes of
// k; the other copies the strips' tiles by flat bulk copies. If one thread issued all copies, issuing would
// take as long as the transfers.
#pragma once

#include <sluice/device/packed/strip_place.cuh>
#include <sluice/device/pipeline.cuh>
#include <sluice/device/ptx/async_copy.cuh>
#include <sluice/device/ptx/tma.cuh>

namespace sluice::packed {

template <StripConfig kConfig>
class StripLoads {
  using S = StripShape<kConfig>;

 public:
  /// Call from one thread: initialises the barriers.
  SLUICE_DEVICE static void start(const StripPlace<kConfig>& at) {
#pragma unroll
    for (int i = 0; i < S::kStages; ++i) {
      ptx::mbarrier_init(at.full(i), 2);
      ptx::mbarrier_init(at.empty(i), 4 * S::kStrips);
    }
    ptx::fence_mbarrier_init();
  }

  /// Call run_tokens() and run_weights() from one thread each.
  SLUICE_DEVICE static void run_tokens(const StripParams& params, const StripPlace<kConfig>& at) {
    const u64 policy = ptx::evict_last_policy();
    walk(at, params.x_bytes, [&](int stage, int tile) {
#pragma unroll
      for (int i = 0; i < S::kBoxes; ++i)
        ptx::tma_load(at.x_stage(stage) + i * S::kBoxBytes, params.map_x,
                      {tile * kPackedTileK + i * kPackedTileK / S::kBoxes, at.first_token, 0}, at.full(stage),
                      policy);
    });
  }
  SLUICE_DEVICE static void run_weights(const StripParams& params, const StripPlace<kConfig>& at) {
    // With one token tile, weights are read once; otherwise they should stay in L2 for the next token tile.
    const u64 policy = params.token_tiles == 1 ? ptx::evict_first_policy() : ptx::evict_normal_policy();
    walk(at, w_stage_bytes(kConfig), [&](int stage, int tile) {
#pragma unroll
      for (int s = 0; s < S::kStrips; ++s)
        ptx::bulk_load(at.w_stage(stage) + s * S::kTileBytes,
                       static_cast<const u8*>(params.weights) +
                           at.strip_in_blob(params, s) * params.strip_bytes +
                           static_cast<i64>(tile) * S::kTileBytes,
                       S::kTileBytes, at.full(stage), policy);
    });
  }

 private:
  template <class Load>
  SLUICE_DEVICE static void walk(const StripPlace<kConfig>& at, u32 bytes, const Load& load) {
    RingPosition ring;
#pragma unroll 1
    for (int i = 0; i < at.count; ++i) {
      if (i >= S::kStages) ptx::mbarrier_wait_parity(at.empty(ring.stage), ring.phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(at.full(ring.stage), bytes);
      load(ring.stage, at.first_tile + i);
      ring.advance(S::kStages);
    }
  }
};

}  // namespace sluice::packed
