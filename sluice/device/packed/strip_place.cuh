// SPDX-License-Identifier: Apache-2.0
// Constants derived from a strip config, the place of a CTA and of a warp in the product, and the CTA's
// stages and barriers.
#pragma once

#include <sluice/spec/strip.h>
#include <sluice/device/math/byte_codes.cuh>
#include <sluice/device/math/weight_fragments.cuh>
#include <sluice/device/ptx/mbarrier.cuh>
#include <sluice/device/ptx/sync.cuh>

namespace sluice::packed {

/// Exponent of the power of two by which the sums are multiplied at the end. It undoes the scaling of code
/// operands, or of weight operands if group scales are multiplied into 16-bit operands.
template <StripConfig kConfig>
SLUICE_HD constexpr int sums_exponent() {
  if constexpr (kConfig.x == DType::e4m3) {
    return kByteExponent;
  } else {
    using Weights = WeightFragments<kConfig.weights.type, kConfig.x, kConfig.weights.zero>;
    return kConfig.weights.group == 0 ? Weights::kExponent : -Weights::kLift;
  }
}

template <StripConfig kConfig>
struct StripShape {
  static constexpr int kTokens = kConfig.tokens, kStrips = kConfig.strips, kKGroups = kConfig.k_groups;
  static constexpr int kStages = kConfig.stages;
  static constexpr int kMathGroups = math_groups(kConfig), kMathThreads = 128 * kMathGroups;
  static constexpr int kTileBytes = tile_bytes(kConfig.weights);
  static constexpr int kGroup = kConfig.weights.group;
  static constexpr int kScaleSize = bytes_of(kConfig.weights.scale);
  static constexpr int kBoxes =
      bytes_of(kConfig.x);  // boxes of tokens per stage: TMA swizzles rows of 128 bytes
  static constexpr int kBoxBytes = kTokens * 128;
  static constexpr int kSumsExponent = sums_exponent<kConfig>();
  static constexpr bool kStoredZeros = kConfig.weights.zero == ScaleZero::per_group;
};

template <StripConfig kConfig>
struct StripPlace {
  using S = StripShape<kConfig>;
  u32 smem;
  int warp;  // Math warps come first, then the warp that loads tokens, the one that loads weights, and idle
             // warps.
  int rank;  // slice of k
  int first_token, first_strip;  // gated: strip of the gate
  int first_tile, count;         // this CTA's tiles of 128 k

  SLUICE_DEVICE StripPlace(const StripParams& params, u32 base) : smem(base) {
    const int cta = static_cast<int>(blockIdx.x), unit = cta / kConfig.parts;
    warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    rank = cta % kConfig.parts;
    // Most launches have one token tile, and skip the division.
    const int row_tile = params.token_tiles == 1 ? unit : unit / params.token_tiles;
    first_token = (unit - row_tile * params.token_tiles) * S::kTokens;
    first_strip = row_tile * (tile_columns(kConfig) / kStripRows);
    first_tile = part_begin(params, rank);
    count = part_begin(params, rank + 1) - first_tile;
  }
  SLUICE_DEVICE bool multiplies() const { return warp < 4 * S::kMathGroups; }
  SLUICE_DEVICE bool loads_tokens() const { return warp == 4 * S::kMathGroups; }
  SLUICE_DEVICE bool loads_weights() const { return warp == 4 * S::kMathGroups + 1; }

  // A math warpgroup's strip in the CTA, and its index among those that share the strip.
  SLUICE_DEVICE int strip() const { return warp / 4 / S::kKGroups; }
  SLUICE_DEVICE int k_group() const { return warp / 4 % S::kKGroups; }
  SLUICE_DEVICE int block() const { return warp % 4; }
  static SLUICE_DEVICE int lane() { return static_cast<int>(threadIdx.x) % 32; }
  SLUICE_DEVICE int strip_in_blob(const StripParams& params, int strip) const {
    return sluice::strip_in_blob(kConfig, params.strips, first_strip, strip);
  }

  SLUICE_DEVICE u32 x_stage(int stage) const { return smem + stage * x_stage_bytes(kConfig); }
  SLUICE_DEVICE u32 w_stage(int stage) const {
    return smem + w_ring_offset(kConfig) + stage * w_stage_bytes(kConfig);
  }
  SLUICE_DEVICE u32 full(int stage) const { return smem + barrier_offset(kConfig) + 8 * stage; }
  SLUICE_DEVICE u32 empty(int stage) const { return full(S::kStages + stage); }

 private:
  static SLUICE_DEVICE int part_begin(const StripParams& params, int part) {
    return static_cast<int>(static_cast<i64>(part) * params.k_tiles / kConfig.parts);
  }
};

}  // namespace sluice::packed
