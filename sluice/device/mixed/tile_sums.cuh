// SPDX-License-Identifier: Apache-2.0
// What a warp adds up: fp32 sums of its rows and tokens over its k-tiles.
// The tensor core multiplies (code + offset) 2^-e. A group's own sum begins at -(zero + offset) 2^-e times
// the sum of the tokens, which is a product with ones; so zeros and offsets leave no rounding behind for
// integer tokens, and the group's sum times its scale is what is rounded. 2^e comes back at the end
// (finish.cuh).
#pragma once

#include <sluice/device/mixed/place.cuh>
#include <sluice/device/ptx/mma.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice::mixed {

SLUICE_HD constexpr float power_of_two(int exponent) {
  float value = 1.0f;
  for (int i = exponent; i < 0; ++i) value *= 0.5f;
  for (int i = 0; i < exponent; ++i) value *= 2.0f;
  return value;
}

struct RowPair {
  float upper, lower;  // of rows g and g + 8 of a block
};

template <DType kType>
SLUICE_DEVICE RowPair row_pair(u32 first, u32 second) {
  if constexpr (kType == DType::fp32) return {__uint_as_float(first), __uint_as_float(second)};
  if constexpr (kType == DType::bf16)
    return {__uint_as_float(first << 16), __uint_as_float(first & 0xFFFF0000u)};
  RowPair pair;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
      : "=f"(pair.upper), "=f"(pair.lower)
      : "r"(first));
  return pair;
}

template <NarrowConfig kConfig>
class TileSums {
  using S = Shape<kConfig>;
  using Codes = typename S::Codes;
  static constexpr bool kCorrects =
      S::kStoredZeros || implied_zero(kConfig.weights.type) + Codes::kOffset != 0;
  static constexpr float kUpper = power_of_two(-Codes::kUpperExponent);
  static constexpr float kLower = power_of_two(-Codes::kLowerExponent);

 public:
  float sums[S::kBlocks][S::kTokenBlocks][4] = {};

  /// `params`: where the zeros of whole rows are, if there are any.
  SLUICE_DEVICE TileSums(const NarrowParams& params, const Place& at) {
    if constexpr (S::kGroup == 0 && S::kStoredZeros) {
#pragma unroll
      for (int block = 0; block < S::kBlocks; ++block) {
        const u8* zeros = static_cast<const u8*>(params.weights) +
                          (at.first_row / kStripRows + block / 4 + 1) * params.strip_bytes -
                          row_zero_bytes(kConfig.weights) + row_pair_offset<kConfig>(at, block % 4, 0);
        const u32* words = reinterpret_cast<const u32*>(zeros);
        row_zeros_[block] = row_pair<kConfig.weights.scale>(words[0], S::kScaleSize == 4 ? words[1] : 0);
      }
    }
  }

  SLUICE_DEVICE void add_tile(u32 stage, const Place& at) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      u32 b[S::kTokenBlocks][8];
      load_tokens(stage + half * (S::kTokenBytes / 2), at.lane, b);
      float tokens[4 / S::kSteps][S::kTokenBlocks][2];
      if constexpr (kCorrects) {
#pragma unroll
        for (int i = 0; i < 4 / S::kSteps; ++i) sum_tokens(b, i * S::kSteps, tokens[i]);
      }
#pragma unroll
      for (int s = 0; s < S::kStrips; ++s) {
        u32 words[S::kStripBlocks][4 * Codes::kWords];
        load_codes(stage + S::kTokenBytes + s * S::kCodeBytes + half * (S::kCodeBytes / 2), at.lane, words);
        const u32 scales = stage + S::kTokenBytes + S::kStrips * S::kCodeBytes + s * S::kScaleBytes;
#pragma unroll
        for (int i = 0; i < 4 / S::kSteps; ++i) {
          const int group = S::kGroup == 0 ? 0 : (64 * half + 16 * S::kSteps * i) / max(S::kGroup, 1);
          add_group(words, b, tokens[i], {s, i * S::kSteps, scales + row_pair_offset<kConfig>(at, 0, group)});
        }
      }
    }
  }

 private:
  struct Group {
    int strip;
    int first;   // of its instructions
    u32 scales;  // of this lane's rows of block 0
  };

  SLUICE_DEVICE static void load_tokens(u32 half, int lane, u32 (&b)[S::kTokenBlocks][8]) {
#pragma unroll
    for (int j = 0; j < S::kTokenBlocks; ++j)
#pragma unroll
      for (int q = 0; q < 8; q += 4) {
        const int row = 8 * j + lane % 8, piece = q + lane / 8;
        ptx::load_matrices(half + row * 128 + (piece ^ row % 8) * kLaneBytes, b[j][q], b[j][q + 1],
                           b[j][q + 2], b[j][q + 3]);
      }
  }
  SLUICE_DEVICE static void load_codes(u32 codes, int lane,
                                       u32 (&words)[S::kStripBlocks][4 * Codes::kWords]) {
#pragma unroll
    for (int block = 0; block < S::kStripBlocks; ++block)
#pragma unroll
      for (int i = 0; i < Codes::kWords; ++i)
        ptx::load_shared_v4(codes + (i * S::kStripBlocks + block) * kWarpCopy + lane * kLaneBytes,
                            words[block] + 4 * i);
  }
  SLUICE_DEVICE static RowPair load_pair(u32 address) {
    u32 first, second = 0;
    if constexpr (S::kScaleSize == 4)
      ptx::load_shared_v2(address, first, second);
    else
      first = ptx::load_shared_u32(address);
    return row_pair<kConfig.weights.scale>(first, second);
  }

  /// Of two tokens a lane, over the k of one group: two chains of products with ones.
  SLUICE_DEVICE static void sum_tokens(const u32 (&b)[S::kTokenBlocks][8], int first, float (*sum)[2]) {
    constexpr u32 kOne = kConfig.x == DType::bf16 ? 0x3F803F80u : 0x3C003C00u;
    const u32 ones[4] = {kOne, kOne, kOne, kOne};
#pragma unroll
    for (int j = 0; j < S::kTokenBlocks; ++j) {
      float chains[2][4] = {};
#pragma unroll
      for (int q = first; q < first + S::kSteps; ++q)
        ptx::mma_m16n8k16<kConfig.x>(chains[q % 2], ones, b[j][2 * q], b[j][2 * q + 1], chains[q % 2]);
      sum[j][0] = chains[0][0] + chains[1][0];
      sum[j][1] = chains[0][1] + chains[1][1];
    }
  }

  SLUICE_DEVICE RowPair start_of(const Group& group, int block) const {
    RowPair zero{implied_zero(kConfig.weights.type), implied_zero(kConfig.weights.type)};
    if constexpr (S::kStoredZeros)
      zero = S::kGroup == 0 ? row_zeros_[4 * group.strip + block]
                            : load_pair(group.scales + S::kZeros + block * kBlockRows * S::kScaleSize);
    return {-(zero.upper + Codes::kOffset) * kUpper, -(zero.lower + Codes::kOffset) * kLower};
  }

  SLUICE_DEVICE void add_group(const u32 (&words)[S::kStripBlocks][4 * Codes::kWords],
                               const u32 (&b)[S::kTokenBlocks][8], const float (*tokens)[2],
                               const Group& group) {
    float t[S::kStripBlocks][S::kTokenBlocks][4] = {};
    if constexpr (kCorrects) {
#pragma unroll
      for (int block = 0; block < S::kStripBlocks; ++block) {
        const RowPair start = start_of(group, block);
#pragma unroll
        for (int j = 0; j < S::kTokenBlocks; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) t[block][j][e] = (e < 2 ? start.upper : start.lower) * tokens[j][e % 2];
      }
    }
    // Blocks inside: the products of one sum are far enough apart not to wait for each other.
#pragma unroll
    for (int q = group.first; q < group.first + S::kSteps; ++q)
#pragma unroll
      for (int block = 0; block < S::kStripBlocks; ++block) {
        add_product<0>(words[block] + q * Codes::kWords, b, q, t[block]);
        if constexpr (Codes::kPasses == 2) add_product<1>(words[block] + q * Codes::kWords, b, q, t[block]);
      }
#pragma unroll
    for (int block = 0; block < S::kStripBlocks; ++block) {
      RowPair scale{1.0f, 1.0f};
      if constexpr (S::kGroup != 0) scale = load_pair(group.scales + block * kBlockRows * S::kScaleSize);
#pragma unroll
      for (int j = 0; j < S::kTokenBlocks; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          sums[4 * group.strip + block][j][e] += (e < 2 ? scale.upper : scale.lower) * t[block][j][e];
    }
  }
  template <int kPass>
  SLUICE_DEVICE static void add_product(const u32* words, const u32 (&b)[S::kTokenBlocks][8], int q,
                                        float (&t)[S::kTokenBlocks][4]) {
    u32 a[4];
    Codes::template expand<kPass>(words, a);
#pragma unroll
    for (int j = 0; j < S::kTokenBlocks; ++j)
      ptx::mma_m16n8k16<kConfig.x>(t[j], a, b[j][2 * q], b[j][2 * q + 1], t[j]);
  }

  RowPair row_zeros_[S::kBlocks];
};

}  // namespace sluice::mixed
