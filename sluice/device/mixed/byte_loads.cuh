// SPDX-License-Identifier: Apache-2.0
// The warp that fills the ring of kernels/byte.cuh: tokens by TMA, in boxes of 128 k; of each strip the tiles
// of a stage, which lie in a row, by one flat copy. The first stages are filled by several warps at
// once, because a thread takes 26 clocks for each copy.
#pragma once

#include <sluice/device/mixed/byte_place.cuh>
#include <sluice/device/pipeline.cuh>
#include <sluice/device/ptx/async_copy.cuh>
#include <sluice/device/ptx/tma.cuh>

namespace sluice::mixed {

template <ByteConfig kConfig>
class ByteLoads {
  using S = ByteShape<kConfig>;

 public:
  /// One thread.
  SLUICE_DEVICE static void start(const ByteParams& params, const BytePlace<kConfig>& at) {
    if (params.k_tiles > 0) ptx::prefetch_tensormap(params.map_x);
    for (int i = 0; i < S::kStages; ++i) {
      ptx::mbarrier_init(at.full(i), 1);
      ptx::mbarrier_init(at.empty(i), 4 * S::kMathGroups);
    }
    ptx::fence_mbarrier_init();
  }

  /// One thread of each math warpgroup.
  SLUICE_DEVICE static void fill_first(const ByteParams& params, const BytePlace<kConfig>& at) {
    const u64 hint = policy(params);
#pragma unroll 1
    for (int i = at.k_group(); i < early(at); i += S::kKGroups)
      load_strip(params, at, i, i, at.strip(), hint);
  }

  /// One thread of the load warp.
  SLUICE_DEVICE static void run(const ByteParams& params, const BytePlace<kConfig>& at) {
    const u64 hint = policy(params), last = ptx::evict_last_policy();
    const int first = early(at);
#pragma unroll 1
    for (int i = 0; i < first; ++i) load_tokens(params, at, i, i, last);
    RingPosition ring;
    ring.skip(first, S::kStages);
#pragma unroll 1
    for (int i = first; i < at.count; ++i) {
      ptx::mbarrier_wait_parity(at.empty(ring.stage), ring.phase ^ 1);
#pragma unroll
      for (int s = 0; s < S::kStrips; ++s) load_strip(params, at, ring.stage, i, s, hint);
      load_tokens(params, at, ring.stage, i, last);
      ring.advance(S::kStages);
    }
  }

 private:
  static SLUICE_DEVICE int early(const BytePlace<kConfig>& at) {
    return min(S::kStages, at.count);
  }
  /// Weights that one CTA reads are read once; else they stay in L2 for the next token tile.
  static SLUICE_DEVICE u64 policy(const ByteParams& params) {
    return params.token_tiles == 1 ? ptx::evict_first_policy() : ptx::evict_normal_policy();
  }
  /// Tiles of the i-th stage: fewer at the end.
  static SLUICE_DEVICE int tiles(const BytePlace<kConfig>& at, int i) {
    return min(S::kKGroups, at.end_tile - first_tile(at, i));
  }
  static SLUICE_DEVICE int first_tile(const BytePlace<kConfig>& at, int i) {
    return at.first_tile + i * S::kKGroups;
  }

  SLUICE_DEVICE static void load_strip(const ByteParams& params, const BytePlace<kConfig>& at, int stage,
                                       int i, int strip, u64 hint) {
    const u8* from = static_cast<const u8*>(params.weights) +
                     at.strip_in_blob(params, strip) * params.strip_bytes +
                     static_cast<i64>(first_tile(at, i)) * S::kTileBytes;
    ptx::bulk_load(at.w_stage(stage) + strip * S::kKGroups * S::kTileBytes, from,
                   static_cast<u32>(tiles(at, i) * S::kTileBytes), at.full(stage), hint);
  }
  /// And the stage's bytes, weights too, whether or not they have come.
  SLUICE_DEVICE static void load_tokens(const ByteParams& params, const BytePlace<kConfig>& at, int stage,
                                        int i, u64 hint) {
    const int count = tiles(at, i), first = first_tile(at, i);
    ptx::mbarrier_arrive_expect_tx(at.full(stage),
                                   static_cast<u32>(count) * (S::kStrips * S::kTileBytes + params.x_bytes));
#pragma unroll 1
    for (int t = 0; t < count; ++t)
      ptx::tma_load(at.x_stage(stage) + t * x_tile_bytes(kConfig), params.map_x,
                    {(first + t) * kPackedTileK, at.first_token, 0}, at.full(stage), hint);
  }
};

}  // namespace sluice::mixed
