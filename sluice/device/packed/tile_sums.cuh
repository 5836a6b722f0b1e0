// SPDX-License-Identifier: Apache-2.0
// A warp's sums for up to 8 tokens: fp32 sums of its rows and tokens over its k-tiles. Outputs are rows of
// the tensor core's A, tokens are columns of its B; the tensor core multiplies (code + offset) 2^-e. A
// group's sum starts with -(zero + offset) 2^-e times the sum of its tokens, which is computed as a product
// with ones. So with integer tokens zeros and offsets cause no rounding; only the product of the group's sum
// and its scale is rounded. finish.cuh multiplies by 2^e at the end.
#pragma once

#include <sluice/device/math/row_pair.cuh>
#include <sluice/device/packed/outputs.cuh>
#include <sluice/device/packed/place.cuh>
#include <sluice/device/ptx/half_pair.cuh>
#include <sluice/device/ptx/mma.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice::packed {

template <NarrowConfig kConfig>
class TileSums {
  using S = Shape<kConfig>;
  using Codes = typename S::Codes;
  static constexpr bool kCorrects =
      S::kStoredZeros || implied_zero(kConfig.weights.type) + Codes::kOffset != 0;
  static constexpr float kUpper = exact_power(-Codes::kUpperExponent);
  static constexpr float kLower = exact_power(-Codes::kLowerExponent);

 public:
  float sums[S::kBlocks][1][4] = {};

  /// `params`: gives the zeros of whole rows, if there are any.
  SLUICE_DEVICE TileSums(const NarrowParams& params, const Place& at) {
    if (S::kHeld < S::kTokens && at.lane == 0) ptx::store_shared_zeros(at.zeros);
    if constexpr (S::kGroup == 0 && S::kStoredZeros) {
#pragma unroll
      for (int block = 0; block < S::kBlocks; ++block) {
        const int strip = at.first_row / kStripRows + block / S::kStripBlocks * strip_step(kConfig, params.n);
        const u8* zeros = strip_zeros<kConfig.weights>(params, strip) +
                          row_pair_offset<kConfig>(at, block % S::kStripBlocks, 0);
        const u32* words = reinterpret_cast<const u32*>(zeros);
        row_zeros_[block] = row_pair<kConfig.weights.scale>(words[0], S::kScaleSize == 4 ? words[1] : 0);
      }
    }
  }

  SLUICE_DEVICE void add_tile(u32 stage, const Place& at) {
#pragma unroll
    for (int span = 0; span < 8; span += S::kSpan) {
      Tokens b;
      load_tokens(stage, span, at, b);
      float tokens[S::kSpan / S::kSteps][2];
      if constexpr (kCorrects) {
#pragma unroll
        for (int i = 0; i < S::kSpan / S::kSteps; ++i) sum_tokens(b, i * S::kSteps, tokens[i]);
      }
#pragma unroll
      for (int s = 0; s < S::kStrips; ++s) {
        const u32 codes = stage + S::kTokenBytes + s * S::kCodeBytes;
        const u32 scales = stage + S::kTokenBytes + S::kStrips * S::kCodeBytes + s * S::kScaleBytes;
        Words words;
        Partial t;
#pragma unroll
        for (int q = 0; q < S::kSpan; ++q) {
          const int group = S::kGroup == 0 ? 0 : 16 * (span + q) / max(S::kGroup, 1);
          const Group of{s, scales + row_pair_offset<kConfig>(at, 0, group)};
          if (q % 4 == 0) load_codes(codes + (span + q) / 4 * (S::kCodeBytes / 2), at.lane, words);
          if (q % S::kSteps == 0) start(t, tokens[q / S::kSteps], of);
          multiply(t, words, q % 4, b, q);
          if ((q + 1) % S::kSteps == 0) close(t, of);
        }
      }
    }
  }

 private:
  using Tokens = u32[2 * S::kSpan];                       // B fragments, two registers per instruction
  using Words = u32[S::kStripBlocks][4 * Codes::kWords];  // codes of 64 k
  using Partial = float[S::kStripBlocks][4];              // a group's sums
  struct Group {
    int strip;
    u32 scales;  // shared address for this lane's rows in block 0
  };

  SLUICE_DEVICE static void load_tokens(u32 stage, int span, const Place& at, Tokens& b) {
    const int row = at.lane % 8;
#pragma unroll
    for (int q = 0; q < 2 * S::kSpan; q += 4) {
      const u32 half = stage + (2 * span + q) / 8 * (S::kTokenBytes / 2);
      const u32 piece = half + row * 128 + (q % 8 + at.lane / 8 ^ row) * kLaneBytes;
      ptx::load_matrices(row < S::kHeld ? piece : at.zeros, b[q], b[q + 1], b[q + 2], b[q + 3]);
    }
    if constexpr (kConfig.norm_a) multiply_by_gamma(stage + S::kGamma + span * 2 * kLaneBytes, at.lane, b);
    if constexpr (S::kTokenPower != 0) {
#pragma unroll
      for (u32& pair : b) pair = ptx::multiply_pair<kConfig.x>(pair, S::kTokenFactor);
    }
  }
  /// Multiplies tokens by gamma. `gamma`: address of its row, which all tokens of a fragment share.
  SLUICE_DEVICE static void multiply_by_gamma(u32 gamma, int lane, Tokens& b) {
#pragma unroll
    for (int q = 0; q < 2 * S::kSpan; q += 4) {
      u32 factors[4];
      ptx::load_matrices(gamma + (q + lane / 8) * kLaneBytes, factors[0], factors[1], factors[2], factors[3]);
#pragma unroll
      for (int i = 0; i < 4; ++i) b[q + i] = ptx::multiply_pair<kConfig.x>(b[q + i], factors[i]);
    }
  }
  SLUICE_DEVICE static void load_codes(u32 codes, int lane, Words& words) {
#pragma unroll
    for (int block = 0; block < S::kStripBlocks; ++block)
#pragma unroll
      for (int i = 0; i < Codes::kWords; ++i)
        ptx::load_shared_v4(codes + (i * S::kStripBlocks + block) * kWarpCopy + lane * kLaneBytes,
                            words[block] + 4 * i);
  }
  SLUICE_DEVICE static RowPair load_pair(u32 address) {
    return sluice::load_pair<kConfig.weights.scale>(address);
  }

  /// Sums tokens 2c and 2c + 1 over the k of one group: products with ones, in two independent chains.
  SLUICE_DEVICE static void sum_tokens(const Tokens& b, int first, float (&sum)[2]) {
    constexpr u32 kOne = kConfig.x == DType::bf16 ? 0x3F803F80u : 0x3C003C00u;
    const u32 ones[4] = {kOne, kOne, kOne, kOne};
    float chains[2][4] = {};
#pragma unroll
    for (int q = first; q < first + S::kSteps; ++q)
      ptx::mma_m16n8k16<kConfig.x>(chains[q % 2], ones, b[2 * q], b[2 * q + 1], chains[q % 2]);
    sum[0] = chains[0][0] + chains[1][0];
    sum[1] = chains[0][1] + chains[1][1];
  }

  SLUICE_DEVICE RowPair start_of(const Group& group, int block) const {
    RowPair zero{implied_zero(kConfig.weights.type), implied_zero(kConfig.weights.type)};
    if constexpr (S::kStoredZeros)
      zero = S::kGroup == 0 ? row_zeros_[S::kStripBlocks * group.strip + block]
                            : load_pair(group.scales + S::kZeros + block * kBlockRows * S::kScaleSize);
    return {-(zero.upper + Codes::kOffset) * kUpper, -(zero.lower + Codes::kOffset) * kLower};
  }
  SLUICE_DEVICE void start(Partial& t, const float (&tokens)[2], const Group& group) const {
#pragma unroll
    for (int block = 0; block < S::kStripBlocks; ++block) {
      const RowPair first = kCorrects ? start_of(group, block) : RowPair{0.0f, 0.0f};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        t[block][e] = kCorrects ? (e < 2 ? first.upper : first.lower) * tokens[e % 2] : 0.0f;
    }
  }
  /// Multiplies the k of one instruction for all blocks. Products that add to the same sum are far enough
  /// apart not to wait for each other.
  SLUICE_DEVICE static void multiply(Partial& t, const Words& words, int fragment, const Tokens& b, int q) {
#pragma unroll
    for (int block = 0; block < S::kStripBlocks; ++block) {
      multiply_block<0>(t[block], words[block], fragment, b, q);
      if constexpr (Codes::kPasses == 2) multiply_block<1>(t[block], words[block], fragment, b, q);
    }
  }
  template <int kPass>
  SLUICE_DEVICE static void multiply_block(float (&t)[4], const u32* words, int fragment, const Tokens& b,
                                           int q) {
    u32 a[4];
    Codes::template expand<kPass>(words, fragment, a);
    ptx::mma_m16n8k16<kConfig.x>(t, a, b[2 * q], b[2 * q + 1], t);
  }
  SLUICE_DEVICE void close(const Partial& t, const Group& group) {
#pragma unroll
    for (int block = 0; block < S::kStripBlocks; ++block) {
      RowPair scale{1.0f, 1.0f};
      if constexpr (S::kGroup != 0) scale = load_pair(group.scales + block * kBlockRows * S::kScaleSize);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sums[S::kStripBlocks * group.strip + block][0][e] +=
            (e < 2 ? scale.upper : scale.lower) * t[block][e];
    }
  }

  RowPair row_zeros_[S::kBlocks];
};

}  // namespace sluice::packed
