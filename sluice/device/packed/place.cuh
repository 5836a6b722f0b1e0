// SPDX-License-Identifier: Apache-2.0
// Constants derived from a narrow config, and a warp's place in the product: its rows, tokens, k-tiles and
// ring.
#pragma once

#include <sluice/spec/packed.h>
#include <sluice/device/math/code_fragments.cuh>

namespace sluice::packed {

inline constexpr int kWarpCopy = 32 * kLaneBytes;  // bytes that a warp copies per instruction

template <NarrowConfig kConfig>
struct Shape {
  static constexpr int kTokens = tile_tokens(kConfig), kTokenBlocks = kConfig.token_blocks;
  static constexpr int kHeld = stage_tokens(kConfig);
  static constexpr int kRows = tile_rows(kConfig), kBlocks = kConfig.row_blocks;
  static constexpr int kStrips = tile_strips(kConfig);
  static constexpr int kStripBlocks = strip_blocks(kConfig);  // blocks of this CTA in each strip
  static constexpr int kTileBytes = tile_bytes(kConfig.weights);
  static constexpr int kTileCodes = tile_code_bytes(kConfig.weights);
  static constexpr int kStageBytes = stage_bytes(kConfig);
  static constexpr int kTokenBytes = stage_token_bytes(kConfig);
  static constexpr int kCodeBytes = stage_code_bytes(kConfig) / kStrips;  // codes of one strip in a stage
  static constexpr int kScaleBytes = strip_scale_bytes(kConfig);  // scales and zeros of one strip in a stage
  static constexpr int kZeros = tile_scale_bytes(kConfig.weights);  // offset of a tile's zeros from its
                                                                    // scales
  static constexpr int kGamma = gamma_offset(kConfig);              // offset of gamma in a stage
  static constexpr int kGroup = kConfig.weights.group;
  static constexpr int kScaleSize = bytes_of(kConfig.weights.scale);
  static constexpr bool kStoredZeros = kConfig.weights.zero == ScaleZero::per_group;
  // Sums are scaled every 32, 64 or, if there are enough registers, 128 k.
  static constexpr int kSteps = kGroup == 32 ? 2 : kGroup == 64 || kBlocks * kTokenBlocks > 8 ? 4 : 8;
  static constexpr int kSpan = max(kSteps, 4);  // instructions whose tokens are in registers at the same time
  using Codes = CodeFragments<kConfig.weights.type, kConfig.x>;
  static constexpr int kTokenPower = sluice::kTokenPower<kConfig.weights.type, kConfig.x>;
  static constexpr u32 kTokenFactor = (127u + kTokenPower) << 7 | (127u + kTokenPower) << 23;  // a bf16 pair
};

/// A warp's place: its CTA's rows (gated: rows of the gate) and tokens, its k-tiles (first_tile, first_tile +
/// warps, ..), and its ring. `zeros`: address of zeros that are read for tokens that do not exist.
struct Place {
  int lane, warp, rank;
  int first_row, first_token;
  int first_tile, count;
  u32 ring, zeros;
};

/// `tile`: the CTA's tile of tokens.
template <NarrowConfig kConfig>
SLUICE_DEVICE Place place_of(const NarrowParams& params, u32 smem, int tile) {
  using S = Shape<kConfig>;
  constexpr int kParts = kConfig.parts;
  Place p;
  p.lane = static_cast<int>(threadIdx.x) % 32;
  p.warp = static_cast<int>(threadIdx.x) / 32;
  p.rank = static_cast<int>(blockIdx.x) % kParts;
  p.first_row = static_cast<int>(blockIdx.x) / kParts * tile_columns(kConfig);
  p.first_token = tile * S::kTokens;
  p.first_tile = p.rank * params.k_tiles / kParts + p.warp;
  const int end = (p.rank + 1) * params.k_tiles / kParts;
  p.count = max(0, (end - p.first_tile + kConfig.warps - 1) / kConfig.warps);
  p.ring = smem + p.warp * kConfig.stages * S::kStageBytes;
  p.zeros = smem + zeros_offset(kConfig) + p.warp * kLaneBytes;
  return p;
}

/// The CTA's first row within its first strip: 0, or 32 in the second half of a strip.
template <NarrowConfig kConfig>
SLUICE_DEVICE int row_of_strip(const Place& at) {
  return Shape<kConfig>::kStripBlocks == 4 ? 0 : at.first_row % kStripRows;
}

/// Offset of a lane's two rows of a block in a strip's scales (or zeros), in memory or in a stage.
template <NarrowConfig kConfig>
SLUICE_DEVICE int row_pair_offset(const Place& at, int block, int group_in_tile) {
  return (group_in_tile * kStripRows + row_of_strip<kConfig>(at) + block * kBlockRows + at.lane / 4 * 2) *
         Shape<kConfig>::kScaleSize;
}

}  // namespace sluice::packed
