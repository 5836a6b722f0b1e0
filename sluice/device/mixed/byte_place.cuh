// SPDX-License-Identifier: Apache-2.0
// What a byte config makes of itself at compile time, where a CTA and a warp stand in the product, and the
// CTA's stages and barriers.
#pragma once

#include <sluice/spec/byte.h>
#include <sluice/device/ptx/mbarrier.cuh>
#include <sluice/device/ptx/sync.cuh>

namespace sluice::mixed {

template <ByteConfig kConfig>
struct ByteShape {
  static constexpr int kTokens = kConfig.tokens, kStrips = kConfig.strips, kKGroups = kConfig.k_groups;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kMathGroups = math_groups(kConfig), kMathThreads = 128 * kMathGroups;
  static constexpr int kTileBytes = tile_bytes(kConfig.weights);
  static constexpr int kGroup = kConfig.weights.group;
  static constexpr int kScaleSize = bytes_of(kConfig.weights.scale);
  static constexpr bool kStoredZeros = kConfig.weights.zero == ScaleZero::per_group;
};

template <ByteConfig kConfig>
struct BytePlace {
  using S = ByteShape<kConfig>;
  u32 smem;
  int group;  // warpgroup; the last one is a warp, which loads
  int rank;   // part of k
  int first_token, first_strip;
  int first_tile, end_tile;  // of 128 k, this CTA's
  int count;                 // its stages

  SLUICE_DEVICE BytePlace(const ByteParams& params, u32 base) : smem(base) {
    const int cta = static_cast<int>(blockIdx.x), unit = cta / kConfig.parts;
    group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
    rank = cta % kConfig.parts;
    first_token = unit % params.token_tiles * S::kTokens;
    first_strip = unit / params.token_tiles * S::kStrips;
    first_tile = static_cast<int>(static_cast<i64>(rank) * params.k_tiles / kConfig.parts);
    end_tile = static_cast<int>(static_cast<i64>(rank + 1) * params.k_tiles / kConfig.parts);
    count = (end_tile - first_tile + S::kKGroups - 1) / S::kKGroups;
  }
  static SLUICE_DEVICE int thread() { return static_cast<int>(threadIdx.x) % 128; }
  static SLUICE_DEVICE int block() { return thread() / 32; }
  static SLUICE_DEVICE int lane() { return thread() % 32; }

  // A math warpgroup's strip in the CTA, and its place among those that share the strip.
  SLUICE_DEVICE int strip() const { return group / S::kKGroups; }
  SLUICE_DEVICE int k_group() const { return group % S::kKGroups; }
  SLUICE_DEVICE int strip_in_blob(const ByteParams& params, int strip) const {
    return min(first_strip + strip, params.strips - 1);  // past the end the last one, which is not stored
  }

  SLUICE_DEVICE u32 x_stage(int stage) const { return smem + stage * x_stage_bytes(kConfig); }
  SLUICE_DEVICE u32 w_stage(int stage) const {
    return smem + w_ring_offset(kConfig) + stage * w_stage_bytes(kConfig);
  }
  SLUICE_DEVICE u32 full(int stage) const { return smem + barrier_offset(kConfig) + 8 * stage; }
  SLUICE_DEVICE u32 empty(int stage) const { return full(S::kStages + stage); }
};

}  // namespace sluice::mixed
