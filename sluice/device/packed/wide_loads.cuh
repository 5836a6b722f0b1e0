// SPDX-License-Identifier: Apache-2.0
// The two threads that fill the rings of kernels/wide.cuh: one copies tokens (TMA, for both CTAs of a cluster
// along n), the other weights (flat bulk copies). A single thread that waits for a free stage of one ring
// could not fill the other.
#pragma once

#include <sluice/device/packed/wide_place.cuh>
#include <sluice/device/ptx/async_copy.cuh>
#include <sluice/device/ptx/tma.cuh>

namespace sluice::packed {

template <WideConfig kConfig>
class TokenLoader {
  using S = WideShape<kConfig>;
  static constexpr int kBox = kConfig.tokens / kConfig.cluster_n;  // tokens that this CTA copies

 public:
  SLUICE_DEVICE static void start(const WideParams& params, const WidePlace<kConfig>& at) {
    ptx::prefetch_tensormap(params.map_x);
    for (int i = 0; i < S::kXStages; ++i) {
      ptx::mbarrier_init(at.x_full(i), 1);
      ptx::mbarrier_init(at.x_empty(i), 4 * kWideGroups * kConfig.cluster_n);
    }
    ptx::fence_mbarrier_init();
  }

  SLUICE_DEVICE static void run(const WideParams& params, const WidePlace<kConfig>& at) {
    RingPosition ring;
    const u64 policy = ptx::evict_last_policy();
    for (int index = at.first_index; index < at.tiles(params); index += at.step) {
      const int token = at.tile(params, index).token;
#pragma unroll 1
      for (int i = 0; i < 2 * params.k_tiles; ++i) {
        ptx::mbarrier_wait_parity(at.x_empty(ring.stage), ring.phase ^ 1);
        ptx::mbarrier_arrive_expect_tx(at.x_full(ring.stage), params.x_bytes);
        load(params, at, ring.stage, i, token, policy);
        ring.advance(S::kXStages);
      }
    }
  }

 private:
  /// Loads this CTA's box of a tile's tokens, for both CTAs of a cluster. `token`: the tile's first.
  SLUICE_DEVICE static void load(const WideParams& params, const WidePlace<kConfig>& at, int stage,
                                 int k_step, int token, u64 policy) {
    const int first = at.n_rank * kBox;
    const u32 to = at.x_stage(stage) + first * 128, full = at.x_full(stage);
    const ptx::TmaBox box{k_step * kWideStageK, token + first, 0};
    if constexpr (kConfig.cluster_n > 1)
      ptx::tma_load_multicast(to, params.map_x, box, full, (1 << kConfig.cluster_n) - 1, policy);
    else
      ptx::tma_load(to, params.map_x, box, full, policy);
  }
};

template <WideConfig kConfig>
class WeightLoader {
  using S = WideShape<kConfig>;

 public:
  /// Issues the first k-tiles before other threads have started.
  SLUICE_DEVICE static void start(const WideParams& params, const WidePlace<kConfig>& at) {
    for (int i = 0; i < S::kWStages; ++i) {
      ptx::mbarrier_init(at.w_full(i), 1);
      ptx::mbarrier_init(at.w_empty(i), 4 * kWideGroups);
    }
    ptx::fence_mbarrier_init();
    const int row = at.tile(params, at.first_index).row;
#pragma unroll 1
    for (int i = 0; i < early(params); ++i) load(params, at, i, row, i);
  }

  SLUICE_DEVICE static void run(const WideParams& params, const WidePlace<kConfig>& at) {
    RingPosition ring;
    int done = early(params);
    ring.skip(done, S::kWStages);
    for (int index = at.first_index; index < at.tiles(params); index += at.step) {
      const int row = at.tile(params, index).row;
#pragma unroll 1
      for (int tile = done; tile < params.k_tiles; ++tile) {
        ptx::mbarrier_wait_parity(at.w_empty(ring.stage), ring.phase ^ 1);
        load(params, at, ring.stage, row, tile);
        ring.advance(S::kWStages);
      }
      done = 0;
    }
  }

 private:
  static SLUICE_DEVICE int early(const WideParams& params) {
    return min(S::kWStages, params.k_tiles);
  }
  /// With one token tile, weights are read once; otherwise they should stay in L2 for the next token tile.
  static SLUICE_DEVICE u64 policy(const WideParams& params) {
    return params.token_tiles == 1 ? ptx::evict_first_policy() : ptx::evict_normal_policy();
  }
  /// Loads both strips of a k-tile. If the blob has no second strip (n is padded to 64, not to 128), the last
  /// strip is loaded twice, and its second result is not stored.
  SLUICE_DEVICE static void load(const WideParams& params, const WidePlace<kConfig>& at, int stage, int row,
                                 int tile) {
    ptx::mbarrier_arrive_expect_tx(at.w_full(stage), S::kWBytes);
#pragma unroll
    for (int s = 0; s < kWideGroups; ++s) {
      const int strip = min(row / kStripRows + s, params.strips - 1);
      ptx::bulk_load(at.w_stage(stage) + s * S::kTileBytes,
                     static_cast<const u8*>(params.weights) + strip * params.strip_bytes +
                         static_cast<i64>(tile) * S::kTileBytes,
                     S::kTileBytes, at.w_full(stage), policy(params));
    }
  }
};

}  // namespace sluice::packed
