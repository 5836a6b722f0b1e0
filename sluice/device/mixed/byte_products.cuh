// SPDX-License-Identifier: Apache-2.0
// The main loop of a math warpgroup: a tile of 64 outputs x 128 k after the other. Codes become registers of
// e4m3; the tensor core adds up the k of one group, at most 128, into partial sums; those are
// multiplied by the group's scales and added in fp32. With stored zeros each group has a second term: the
// tokens' own sums, a product with ones, times -scale * (zero - 8).
// Nothing is in flight when a tile ends: the other warpgroups of the SM keep the tensor cores busy meanwhile.
#pragma once

#include <sluice/spec/packed_codes.h>
#include <sluice/device/element.cuh>
#include <sluice/device/math/byte_codes.cuh>
#include <sluice/device/mixed/byte_place.cuh>
#include <sluice/device/mixed/tile_sums.cuh>
#include <sluice/device/pipeline.cuh>
#include <sluice/device/ptx/shared.cuh>
#include <sluice/device/ptx/wgmma.cuh>

namespace sluice::mixed {

template <ByteConfig kConfig>
class ByteProducts {
  using S = ByteShape<kConfig>;
  using Instruction = ptx::WgmmaRs<DType::e4m3, S::kTokens>;
  static constexpr WeightFormat kFormat = kConfig.weights;
  static constexpr int kGroups = max(tile_groups(kFormat), 1);  // in a tile
  static constexpr int kSteps = 4 / kGroups;                    // of 32 k in a group
  static constexpr int kTerms = S::kStoredZeros ? 2 * kGroups : kGroups;
  static constexpr int kPairWords = S::kScaleSize / 2;  // of rows g and g + 8
  // Partial sums that are in flight at once; with more tokens registers are for one.
  static constexpr int kSets = min(kTerms, S::kTokens <= 16 ? 4 : S::kTokens <= 32 ? 2 : 1);

 public:
  using Sums = float[S::kTokens / 2];

  SLUICE_DEVICE explicit ByteProducts(const BytePlace<kConfig>& at) : at_(at) {}

  /// All tiles of the warpgroup. `sums`: added to.
  SLUICE_DEVICE void run(const ByteParams& params, Sums& sums) {
    load_row_zeros(params);
    RingPosition ring;
#pragma unroll 1
    for (int i = 0; i < at_.count; ++i) {
      ptx::mbarrier_wait_parity(at_.full(ring.stage), ring.phase);
      if (at_.first_tile + i * S::kKGroups + at_.k_group() < at_.end_tile) add_tile(ring.stage, sums);
      __syncwarp();
      if (at_.lane() == 0) ptx::mbarrier_arrive(at_.empty(ring.stage));
      ring.advance(S::kStages);
    }
  }

 private:
  SLUICE_DEVICE void load_row_zeros(const ByteParams& params) {
    if constexpr (S::kGroup == 0 && S::kStoredZeros) {
      if (params.k_tiles == 0) return;
      const u8* zeros = static_cast<const u8*>(params.weights) +
                        (at_.strip_in_blob(params, at_.strip()) + 1) * params.strip_bytes -
                        row_zero_bytes(kFormat);
      const int slot = scale_slot(at_.block() * kBlockRows + at_.lane() / 4, 0);
      row_zeros_ = {load_element<kFormat.scale>(zeros, slot), load_element<kFormat.scale>(zeros, slot + 1)};
    }
  }

  SLUICE_DEVICE void add_tile(int stage, Sums& sums) {
    tile_ = at_.w_stage(stage) + (at_.strip() * S::kKGroups + at_.k_group()) * S::kTileBytes;
    tokens_ = ptx::smem_descriptor(at_.x_stage(stage) + at_.k_group() * x_tile_bytes(kConfig), 16, 8 * 128);
    u32 words[2][4];
#pragma unroll
    for (int chunk = 0; chunk < 2; ++chunk)
      ptx::load_shared_v4(tile_ + (4 * chunk + at_.block()) * 32 * kLaneBytes + at_.lane() * kLaneBytes,
                          words[chunk]);
    load_factors();
    u32 a[4][4];
    Sums partial[kSets];
    walk<0>(words, a, partial, sums);
  }

  /// Term t is issued; the one that has its registers next is finished before.
  template <int kTerm>
  SLUICE_DEVICE void walk(const u32 (&words)[2][4], u32 (&a)[4][4], Sums (&partial)[kSets], Sums& sums) {
    if constexpr (kTerm < kTerms + kSets) {
      constexpr int kDone = kTerm - kSets;
      if constexpr (kTerm < kTerms) convert<kTerm>(words, a);
      if constexpr (kDone >= 0) {
        ptx::wgmma_wait_group<min(kTerms, kTerm) - kDone - 1>();
        add<kDone>(partial[kDone % kSets], sums);
      }
      if constexpr (kTerm < kTerms) issue<kTerm>(a, partial[kTerm % kSets]);
      walk<kTerm + 1>(words, a, partial, sums);
    }
  }
  // Terms are the groups, or (stored zeros) for each group its products and then its tokens' sums.
  static constexpr SLUICE_DEVICE int group_of(int term) {
    return S::kStoredZeros ? term / 2 : term;
  }
  static constexpr SLUICE_DEVICE bool sums_tokens(int term) {
    return S::kStoredZeros && term % 2 == 1;
  }

  template <int kTerm>
  SLUICE_DEVICE void convert(const u32 (&words)[2][4], u32 (&a)[4][4]) {
    if constexpr (!sums_tokens(kTerm)) {
#pragma unroll
      for (int q = group_of(kTerm) * kSteps; q < (group_of(kTerm) + 1) * kSteps; ++q) {
        expand_bytes(words[q / 2] + q % 2 * 2, a[q]);
        ptx::pin_registers(a[q]);
      }
    }
  }
  template <int kTerm>
  SLUICE_DEVICE void issue(const u32 (&a)[4][4], Sums& partial) {
    constexpr u32 kOnes[4] = {kByteOnes, kByteOnes, kByteOnes, kByteOnes};
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int q = group_of(kTerm) * kSteps + i;
      if constexpr (sums_tokens(kTerm))
        Instruction::mma(partial, kOnes, tokens_ + 2 * q, i > 0);
      else
        Instruction::mma(partial, a[q], tokens_ + 2 * q, i > 0);
    }
    ptx::wgmma_commit_group();
  }

  /// The tile's scales and zeros as they lie: on their way while codes are made operands of.
  SLUICE_DEVICE void load_factors() {
    if constexpr (S::kGroup != 0) {
      const int slot = scale_slot(at_.block() * kBlockRows + at_.lane() / 4, 0);
      const u32 scales = tile_ + tile_scales_offset(kFormat) + slot * S::kScaleSize;
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        const u32 pair = scales + i * kStripRows * S::kScaleSize;
        load_pair(pair, scales_[i]);
        if constexpr (S::kStoredZeros) load_pair(pair + tile_scale_bytes(kFormat), zeros_[i]);
      }
    }
  }
  static SLUICE_DEVICE void load_pair(u32 address, u32 (&words)[kPairWords]) {
    if constexpr (kPairWords == 2)
      ptx::load_shared_v2(address, words[0], words[1]);
    else
      words[0] = ptx::load_shared_u32(address);
  }
  static SLUICE_DEVICE RowPair floats(const u32 (&words)[kPairWords]) {
    return row_pair<kFormat.scale>(words[0], words[kPairWords - 1]);
  }
  /// What the term's sums are multiplied by, in rows g and g + 8.
  template <int kTerm>
  SLUICE_DEVICE RowPair factors() const {
    constexpr int kOf = group_of(kTerm);
    RowPair f{1.0f, 1.0f};
    if constexpr (S::kGroup != 0) f = floats(scales_[kOf]);
    if constexpr (sums_tokens(kTerm)) {
      constexpr float kUnit = power_of_two(-kByteExponent);
      const RowPair zero = S::kGroup != 0 ? floats(zeros_[kOf]) : row_zeros_;
      f.upper *= (kByteZero - zero.upper) * kUnit;
      f.lower *= (kByteZero - zero.lower) * kUnit;
    }
    return f;
  }
  template <int kTerm>
  SLUICE_DEVICE void add(Sums& partial, Sums& sums) const {
    ptx::pin_registers(partial);
    const RowPair f = factors<kTerm>();
#pragma unroll
    for (int i = 0; i < S::kTokens / 2; ++i) sums[i] += (i % 4 < 2 ? f.upper : f.lower) * partial[i];
  }

  const BytePlace<kConfig>& at_;
  RowPair row_zeros_{};
  u32 scales_[kGroups][kPairWords], zeros_[kGroups][kPairWords];
  u32 tile_ = 0;
  u64 tokens_ = 0;
};

}  // namespace sluice::mixed
