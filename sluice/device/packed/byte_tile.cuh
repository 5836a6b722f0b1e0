// SPDX-License-Identifier: Apache-2.0
// A lane's part of a tile: codes of two rows, and their scales and zeros, in memory order. Codes are
// converted to e4m3, and scales to float, when they are needed.
#pragma once

#include <sluice/spec/packed_codes.h>
#include <sluice/device/element.cuh>
#include <sluice/device/math/byte_codes.cuh>
#include <sluice/device/math/code_fragments.cuh>
#include <sluice/device/math/row_pair.cuh>
#include <sluice/device/packed/outputs.cuh>
#include <sluice/device/packed/strip_place.cuh>
#include <sluice/device/ptx/shared.cuh>
#include <sluice/device/ptx/wgmma.cuh>

namespace sluice::packed {

template <StripConfig kConfig>
class ByteTile {
  using S = StripShape<kConfig>;
  static constexpr WeightFormat kFormat = kConfig.weights;
  static constexpr int kScaleWords = kPairWords<kFormat.scale>;  // words of rows g and g + 8

 public:
  static constexpr int kGroups = max(tile_groups(kFormat), 1);

  SLUICE_DEVICE ByteTile(const StripParams& params, const StripPlace<kConfig>& at) : at_(at) {
    if constexpr (S::kGroup == 0 && S::kStoredZeros) {
      if (params.k_tiles == 0) return;
      const u8* zeros = strip_zeros<kFormat>(params, at.strip_in_blob(params, at.strip()));
      row_zeros_ = {load_element<kFormat.scale>(zeros, slot()),
                    load_element<kFormat.scale>(zeros, slot() + 1)};
    }
  }

  /// Loads the codes of chunk kChunk (64 k).
  template <int kChunk>
  SLUICE_DEVICE void load_codes(int stage) {
    ptx::load_shared_v4(tile(stage) + (4 * kChunk + at_.block()) * 32 * kLaneBytes + at_.lane() * kLaneBytes,
                        words_ + 4 * kChunk);
  }
  SLUICE_DEVICE void load_scales(int stage) {
    if constexpr (S::kGroup != 0) {
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        const u32 pair =
            tile(stage) + tile_scales_offset(kFormat) + (slot() + i * kStripRows) * S::kScaleSize;
        load_pair(pair, scales_[i]);
        if constexpr (S::kStoredZeros) load_pair(pair + tile_scale_bytes(kFormat), zeros_[i]);
      }
    }
  }

  /// The A registers of product q (32 k). They are pinned, so that ptxas writes them here and not between
  /// products.
  SLUICE_DEVICE void expand(int q, u32 (&a)[4]) const {
    ptx::pin_registers(a);
    expand_bytes(words_ + 2 * q, a);
    ptx::pin_registers(a);
  }

  /// Factors for the sums in rows g and g + 8: the group's scales, or, for the sums of tokens (kOnes), the
  /// factors that subtract the zeros.
  template <int kGroup, bool kOnes>
  SLUICE_DEVICE RowPair factors() const {
    RowPair f{1.0f, 1.0f};
    if constexpr (S::kGroup != 0) f = floats(scales_[kGroup]);
    if constexpr (kOnes) {
      constexpr float kUnit = exact_power(-kByteExponent);
      const RowPair zero = S::kGroup != 0 ? floats(zeros_[kGroup]) : row_zeros_;
      f.upper *= (kByteZero - zero.upper) * kUnit;
      f.lower *= (kByteZero - zero.lower) * kUnit;
    }
    return f;
  }

 private:
  SLUICE_DEVICE u32 tile(int stage) const {
    return at_.w_stage(stage) + at_.strip() * S::kTileBytes;
  }
  SLUICE_DEVICE int slot() const {
    return scale_slot(at_.block() * kBlockRows + at_.lane() / 4, 0);
  }
  static SLUICE_DEVICE void load_pair(u32 address, u32 (&words)[kScaleWords]) {
    load_pair_words<kFormat.scale>(address, words);
  }
  static SLUICE_DEVICE RowPair floats(const u32 (&words)[kScaleWords]) {
    return row_pair<kFormat.scale>(words[0], words[kScaleWords - 1]);
  }

  const StripPlace<kConfig>& at_;
  u32 words_[8];
  u32 scales_[kGroups][kScaleWords], zeros_[kGroups][kScaleWords];
  RowPair row_zeros_{};
};

}  // namespace sluice::packed
