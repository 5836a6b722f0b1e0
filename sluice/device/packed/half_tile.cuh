// SPDX-License-Identifier: Apache-2.0
// A lane's weights of 64 k for 16-bit tokens. They are loaded from their stage in memory order, and converted
// later to A registers, those of four mma at a time. Scales and zero points are rounded to the tokens' type
// here.
#pragma once

#include <sluice/spec/packed_codes.h>
#include <sluice/device/math/row_pair.cuh>
#include <sluice/device/math/weight_fragments.cuh>
#include <sluice/device/packed/outputs.cuh>
#include <sluice/device/ptx/shared.cuh>
#include <sluice/device/ptx/wgmma.cuh>

namespace sluice::packed {

template <WeightFormat kFormat, DType kX>
class HalfTile {
  using Weights = WeightFragments<kFormat.type, kX, kFormat.zero>;
  static constexpr int kGroup = kFormat.group;
  static constexpr int kGroups = kGroup == 32 ? 2 : kGroup == 0 ? 0 : 1;  // groups per 64 k
  static constexpr int kScaleSize = bytes_of(kFormat.scale);
  static constexpr int kScaleWords = kPairWords<kFormat.scale>;  // words of rows g and g + 8, per group
  static constexpr bool kStoredZeros = kFormat.zero == ScaleZero::per_group;

 public:
  /// Reads zeros of whole rows from memory, once per tile of D.
  template <class Params>
  SLUICE_DEVICE void begin(const Params& params, int strip, int block, int lane) {
    zero_[0] = zero_[1] = Weights::kImplied;
    if constexpr (kGroup == 0 && kStoredZeros) {
      const u8* zeros = strip_zeros<kFormat>(params, strip);
      const int slot = scale_slot(block * kBlockRows + lane / 4, 0);
      set_zeros({load_element<kFormat.scale>(zeros, slot), load_element<kFormat.scale>(zeros, slot + 1)});
    }
  }

  /// `strip`: shared address of the strip's tile in a stage.
  template <int kHalf>
  SLUICE_DEVICE void load(u32 strip, int block, int lane) {
#pragma unroll
    for (int i = 0; i < Weights::kWords; ++i)
      ptx::load_shared_v4(strip + kHalf * tile_code_bytes(kFormat) / 2 + (4 * i + block) * 32 * kLaneBytes +
                              lane * kLaneBytes,
                          words_ + 4 * i);
    if constexpr (kGroups > 0 && (kGroup != 128 || kHalf == 0)) {
      const u32 pairs = strip + tile_scales_offset(kFormat) +
                        scale_slot(block * kBlockRows + lane / 4, kHalf * kGroups) * kScaleSize;
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        const u32 pair = pairs + i * kStripRows * kScaleSize;
        load_pair(pair, scales_[i]);
        if constexpr (kStoredZeros) load_pair(pair + tile_scale_bytes(kFormat), zeros_[i]);
      }
    }
  }

  /// Makes the registers of the four products of a half. They are pinned, so that they are written here,
  /// between the products before and after the call.
  template <int kHalf>
  SLUICE_DEVICE void convert(u32 (&a)[4][4]) {
#pragma unroll
    for (int q = 0; q < 4; ++q) ptx::pin_registers(a[q]);
    if constexpr (kOneStep && (kGroup != 128 || kHalf == 0)) open_groups();
#pragma unroll
    for (int q = 0; q < 4; ++q)
      if constexpr (kOneStep) {
        OneStep::expand(words_, q, factor_[q * kGroups / 4], offset_[q * kGroups / 4], a[q]);
        ptx::pin_registers(a[q]);
      } else {
        convert(q, a[q]);
      }
  }

 private:
  using OneStep = OneStepFragments<kFormat.type>;
  static constexpr bool kOneStep =
      code_bits(kFormat.type) == 4 && kX == DType::bf16 && kGroups > 0 && !kStoredZeros;
  static constexpr int kOpenGroups = kOneStep ? kGroups : 0;
  static_assert(!kOneStep || Weights::kLift == -20, "that is what OneStepFragments makes");

  SLUICE_DEVICE void open_groups() {
#pragma unroll
    for (int i = 0; i < kOpenGroups; ++i) {
      u32 pair = scales_[i][0];
      if constexpr (kFormat.scale == DType::e8m0) {
        pair = bf16_of_e8m0(pair);
      } else if constexpr (kFormat.scale != kX) {
        const RowPair scale = floats(scales_[i]);
        pair = pack_16bit<kX>(scale.upper, scale.lower);
      }
      const u32 factor = ptx::multiply_pair<kX>(pair, OneStep::kFactor);
      const u32 offset = ptx::multiply_pair<kX>(pair, OneStep::kOffset);
      factor_[i][0] = ptx::repeat_low(factor);
      factor_[i][1] = ptx::repeat_high(factor);
      offset_[i][0] = ptx::repeat_low(offset);
      offset_[i][1] = ptx::repeat_high(offset);
    }
  }
  SLUICE_DEVICE void convert(int q, u32 (&a)[4]) {
    if (kGroups > 0 && q % (4 / max(kGroups, 1)) == 0) open_group(q * kGroups / 4);
    Weights::difference(words_, q, zero_, a);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if constexpr (kGroups > 0) a[j] = ptx::multiply_pair<kX>(a[j], scale_[j % 2]);
    ptx::pin_registers(a);
  }

  static SLUICE_DEVICE void load_pair(u32 address, u32 (&words)[kScaleWords]) {
    load_pair_words<kFormat.scale>(address, words);
  }
  static SLUICE_DEVICE RowPair floats(const u32 (&words)[kScaleWords]) {
    return row_pair<kFormat.scale>(words[0], words[kScaleWords - 1]);
  }
  SLUICE_DEVICE void set_zeros(const RowPair& zeros) {
    const float upper = Weights::addend(zeros.upper), lower = Weights::addend(zeros.lower);
    zero_[0] = pack_16bit<kX>(upper, upper);
    zero_[1] = pack_16bit<kX>(lower, lower);
  }
  SLUICE_DEVICE void open_group(int group) {
    constexpr int kPower = Weights::kExponent + Weights::kLift;
    if constexpr (kFormat.scale == kX) {
      constexpr u32 kFactor = static_cast<u32>(15 + kPower) << 10;  // 2^kPower as one fp16
      const u32 pair = kPower == 0 ? scales_[group][0]
                                   : ptx::multiply_pair<kX>(scales_[group][0], kFactor << 16 | kFactor);
      scale_[0] = ptx::repeat_low(pair);
      scale_[1] = ptx::repeat_high(pair);
    } else {
      const RowPair scale = floats(scales_[group]);
      const float upper = scale.upper * exact_power(kPower), lower = scale.lower * exact_power(kPower);
      scale_[0] = pack_16bit<kX>(upper, upper);
      scale_[1] = pack_16bit<kX>(lower, lower);
    }
    if constexpr (kStoredZeros) set_zeros(floats(zeros_[group]));
  }

  u32 words_[4 * Weights::kWords];
  u32 scales_[max(kGroups, 1)][kScaleWords], zeros_[max(kGroups, 1)][kScaleWords];  // in memory order
  u32 scale_[2], zero_[2];  // the current group's, for rows g and g + 8
  u32 factor_[max(kOpenGroups, 1)][2], offset_[max(kOpenGroups, 1)][2];  // operands of OneStepFragments, for
                                                                         // rows g and g + 8
};

}  // namespace sluice::packed
