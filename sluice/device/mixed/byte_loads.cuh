// SPDX-License-Identifier: Apache-2.0
// The threads that fill the ring of kernels/byte.cuh, one of each warp that loads: some copy tokens by TMA,
// in boxes of 128 k, as many the strips' tiles as they lie, by flat copies. They take stages in turn, each
// always the same ones (spec/byte.h, load_warps).
#pragma once

#include <sluice/device/mixed/byte_place.cuh>
#include <sluice/device/pipeline.cuh>
#include <sluice/device/ptx/async_copy.cuh>
#include <sluice/device/ptx/tma.cuh>
#include <sluice/device/timeline.cuh>

namespace sluice::mixed {

template <ByteConfig kConfig>
class ByteLoads {
  using S = ByteShape<kConfig>;

 public:
  /// One thread.
  SLUICE_DEVICE static void start(const BytePlace<kConfig>& at) {
#pragma unroll
    for (int i = 0; i < S::kStages; ++i) {
      ptx::mbarrier_init(at.full(i), 2);
      ptx::mbarrier_init(at.empty(i), 4 * S::kStrips);
    }
    ptx::fence_mbarrier_init();
  }

  /// One thread each.
  SLUICE_DEVICE static void run_tokens(const ByteParams& params, const BytePlace<kConfig>& at) {
    const u64 policy = ptx::evict_last_policy();
    walk(at, params.x_bytes, [&](int stage, int tile) {
      ptx::tma_load(at.x_stage(stage), params.map_x, {tile * kPackedTileK, at.first_token, 0}, at.full(stage),
                    policy);
    });
  }
  SLUICE_DEVICE static void run_weights(const ByteParams& params, const BytePlace<kConfig>& at,
                                        TimelineMarks& timeline) {
    // Weights that one CTA reads are read once; else they stay in L2 for the next token tile.
    const u64 policy = params.token_tiles == 1 ? ptx::evict_first_policy() : ptx::evict_normal_policy();
    walk(at, w_stage_bytes(kConfig), [&](int stage, int tile) {
#pragma unroll
      for (int s = 0; s < S::kStrips; ++s)
        ptx::bulk_load(at.w_stage(stage) + s * S::kTileBytes,
                       static_cast<const u8*>(params.weights) +
                           at.strip_in_blob(params, s) * params.strip_bytes +
                           static_cast<i64>(tile) * S::kTileBytes,
                       S::kTileBytes, at.full(stage), policy);
      const int i = tile - at.first_tile;  // this warp's last one of the first filling, and of all
      if (i < min(S::kStages, at.count) && i + S::kLoadWarps >= min(S::kStages, at.count))
        timeline.mark(Moment::loads_issued);
      if (i + S::kLoadWarps >= at.count) timeline.mark(Moment::last_load);
    });
  }

 private:
  template <class Load>
  SLUICE_DEVICE static void walk(const BytePlace<kConfig>& at, u32 bytes, const Load& load) {
    static_assert(S::kStages % S::kLoadWarps == 0, "a stage is always the same warp's");
    RingPosition ring;
    ring.stage = at.loader();
#pragma unroll 1
    for (int i = at.loader(); i < at.count; i += S::kLoadWarps) {
      if (i >= S::kStages) ptx::mbarrier_wait_parity(at.empty(ring.stage), ring.phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(at.full(ring.stage), bytes);
      load(ring.stage, at.first_tile + i);
      ring.stage += S::kLoadWarps;
      if (ring.stage == S::kStages + at.loader()) {
        ring.stage = at.loader();
        ring.phase ^= 1;
      }
    }
  }
};

}  // namespace sluice::mixed
