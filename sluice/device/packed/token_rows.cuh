// SPDX-License-Identifier: Apache-2.0
// A warp's sums for 16 or 32 tokens. Here tokens are rows of the tensor core's A, and the eight weight rows
// of half a block are columns of its B. In a fragment of the blob, registers 0 and 2 are rows 0..7 of a
// block, registers 1 and 3 are rows 8..15.
// So the sums of tokens (products with ones) are in the lanes that need them. Without stored zeros, the four
// start values of a group are the same for all blocks (packed/tile_sums.cuh).
#pragma once

#include <sluice/device/math/row_pair.cuh>
#include <sluice/device/packed/outputs.cuh>
#include <sluice/device/packed/place.cuh>
#include <sluice/device/ptx/half_pair.cuh>
#include <sluice/device/ptx/mma.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice::packed {

template <NarrowConfig kConfig>
class TokenRows {
  using S = Shape<kConfig>;
  using Codes = typename S::Codes;
  static constexpr int kBlocks16 = S::kTokenBlocks / 2;  // blocks of 16 tokens
  // blocks of weights per step: enough independent chains, and few enough registers
  static constexpr int kAtOnce = 2 / kBlocks16;
  // With 32 tokens ptxas would otherwise load the tokens of both halves of a tile at once, and run out of
  // registers.
  static constexpr int kSpansAtOnce = kBlocks16 == 1 ? 8 / S::kSpan : 1;
  static constexpr float kZero = implied_zero(kConfig.weights.type) + Codes::kOffset;
  static constexpr bool kCorrects = S::kStoredZeros || kZero != 0.0f;
  static constexpr float kUpper = exact_power(-Codes::kUpperExponent);
  static constexpr float kLower = exact_power(-Codes::kLowerExponent);

 public:
  /// Sums of eight rows and 16 tokens: rows 2c and 2c + 1 of token g, then of token g + 8.
  float sums[2 * S::kBlocks][kBlocks16][4] = {};

  SLUICE_DEVICE TokenRows(const NarrowParams& params, const Place& at)
      : token_row_(at.lane % 16 * 128 + (at.lane / 16 ^ at.lane % 8) * kLaneBytes),
        codes_(S::kTokenBytes + at.lane * kLaneBytes),
        scales_(S::kTokenBytes + S::kStrips * S::kCodeBytes +
                (row_of_strip<kConfig>(at) + at.lane % 4 * 4) * S::kScaleSize) {
    if constexpr (S::kGroup == 0 && S::kStoredZeros) {
#pragma unroll
      for (int block = 0; block < S::kBlocks; ++block) {
        const int row = row_of_strip<kConfig>(at) + block % S::kStripBlocks * kBlockRows + at.lane % 4 * 4;
        const int strip = at.first_row / kStripRows + block / S::kStripBlocks * strip_step(kConfig, params.n);
        const u32* words =
            reinterpret_cast<const u32*>(strip_zeros<kConfig.weights>(params, strip) + row * S::kScaleSize);
        constexpr DType kScale = kConfig.weights.scale;
        row_zeros_[block] =
            S::kScaleSize == 4
                ? RowPairs{row_pair<kScale>(words[0], words[1]), row_pair<kScale>(words[2], words[3])}
                : RowPairs{row_pair<kScale>(words[0], 0), row_pair<kScale>(words[1], 0)};
      }
    }
  }

  SLUICE_DEVICE void add_tile(u32 stage) {
    Addresses at{stage + token_row_, stage + codes_, stage + scales_};
#pragma unroll kSpansAtOnce
    for (int span = 0; span < 8; span += S::kSpan) {
      Tokens a;
      load_tokens(at.tokens, a);
      Starts starts[S::kSpan / S::kSteps] = {};
      if constexpr (kCorrects) {
#pragma unroll
        for (int i = 0; i < S::kSpan / S::kSteps; ++i) sum_tokens(a, i * S::kSteps, starts[i]);
      }
#pragma unroll
      for (int block = 0; block < S::kBlocks; block += kAtOnce) add_blocks(at, block, a, starts);
      at.tokens += S::kTokenBytes / 2;
      at.codes += S::kCodeBytes / 2;
      at.scales += 64 / max(S::kGroup, 1) % 64 * kStripRows * S::kScaleSize;
    }
  }

 private:
  using Tokens = u32[S::kSpan][kBlocks16][4];       // A fragments
  using Words = u32[kAtOnce][4 * Codes::kWords];    // codes of 64 k
  using Partial = float[kAtOnce][2][kBlocks16][4];  // a group's sums
  using Starts = float[2][kBlocks16][4];            // start values of a group, for rows 0..7 and 8..15
  struct Addresses {                                // this lane's addresses in a stage
    u32 tokens, codes, scales;
  };

  SLUICE_DEVICE static void load_tokens(u32 tokens, Tokens& a) {
#pragma unroll
    for (int q = 0; q < S::kSpan; ++q)
#pragma unroll
      for (int i = 0; i < kBlocks16; ++i) {
        const u32 rows = q / 4 * (S::kTokenBytes / 2) + i * 16 * 128;
        ptx::load_matrices((tokens ^ (q % 4 * 2 * kLaneBytes)) + rows, a[q][i][0], a[q][i][1], a[q][i][2],
                           a[q][i][3]);
        if constexpr (S::kTokenPower != 0) {
#pragma unroll
          for (u32& pair : a[q][i]) pair = ptx::multiply_pair<kConfig.x>(pair, S::kTokenFactor);
        }
      }
  }

  /// The start values of a group: the sums of tokens g and g + 8 over its k, as products with ones in two
  /// chains. Without stored zeros they are multiplied by the rows' common factor.
  SLUICE_DEVICE static void sum_tokens(const Tokens& a, int first, Starts& starts) {
    constexpr u32 kOne = kConfig.x == DType::bf16 ? 0x3F803F80u : 0x3C003C00u;
#pragma unroll
    for (int i = 0; i < kBlocks16; ++i) {
      float chains[2][4] = {};
#pragma unroll
      for (int q = first; q < first + S::kSteps; ++q)
        ptx::mma_m16n8k16<kConfig.x>(chains[q % 2], a[q][i], kOne, kOne, chains[q % 2]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float sum = chains[0][e / 2 * 2] + chains[1][e / 2 * 2];
        starts[0][i][e] = sum * (S::kStoredZeros ? 1.0f : -kZero * kUpper);
        starts[1][i][e] = sum * (S::kStoredZeros ? 1.0f : -kZero * kLower);
      }
    }
  }

  SLUICE_DEVICE void add_blocks(const Addresses& at, int block, const Tokens& a, const Starts* starts) {
    const int strip = block / S::kStripBlocks, first = block % S::kStripBlocks;
    Words words;
    Partial t;
#pragma unroll
    for (int q = 0; q < S::kSpan; ++q) {
      const int group = S::kGroup == 0 ? 0 : 16 * q / max(S::kGroup, 1);
      const u32 scales =
          at.scales + strip * S::kScaleBytes + (group * kStripRows + first * kBlockRows) * S::kScaleSize;
      if (q % 4 == 0)
        load_codes(at.codes + strip * S::kCodeBytes + q / 4 * (S::kCodeBytes / 2), first, words);
      if (q % S::kSteps == 0) start(t, starts[q / S::kSteps], scales, block);
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        multiply<0>(t[b], words[b], q % 4, a[q]);
        if constexpr (Codes::kPasses == 2) multiply<1>(t[b], words[b], q % 4, a[q]);
      }
      if ((q + 1) % S::kSteps == 0) close(t, scales, block);
    }
  }

  SLUICE_DEVICE static void load_codes(u32 codes, int first, Words& words) {
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b)
#pragma unroll
      for (int i = 0; i < Codes::kWords; ++i)
        ptx::load_shared_v4(codes + (i * S::kStripBlocks + first + b) * kWarpCopy, words[b] + 4 * i);
  }
  SLUICE_DEVICE void start(Partial& t, const Starts& starts, u32 scales, int block) const {
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      float factors[2][2];  // for rows 0..7 and 8..15, even and odd
      if constexpr (S::kStoredZeros) {
        const RowPairs zeros = S::kGroup == 0
                                   ? row_zeros_[block + b]
                                   : load_pairs(scales + S::kZeros + b * kBlockRows * S::kScaleSize);
        factors[0][0] = -(zeros.even.upper + Codes::kOffset) * kUpper;
        factors[0][1] = -(zeros.odd.upper + Codes::kOffset) * kUpper;
        factors[1][0] = -(zeros.even.lower + Codes::kOffset) * kLower;
        factors[1][1] = -(zeros.odd.lower + Codes::kOffset) * kLower;
      }
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int i = 0; i < kBlocks16; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            t[b][h][i][e] = S::kStoredZeros ? factors[h][e % 2] * starts[h][i][e] : starts[h][i][e];
    }
  }
  template <int kPass>
  SLUICE_DEVICE static void multiply(float (&t)[2][kBlocks16][4], const u32* words, int fragment,
                                     const u32 (&a)[kBlocks16][4]) {
    u32 b[4];
    Codes::template expand<kPass>(words, fragment, b);
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int i = 0; i < kBlocks16; ++i)
        ptx::mma_m16n8k16<kConfig.x>(t[h][i], a[i], b[h], b[h + 2], t[h][i]);
  }
  SLUICE_DEVICE void close(const Partial& t, u32 scales, int block) {
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      RowPairs scale{{1.0f, 1.0f}, {1.0f, 1.0f}};
      if constexpr (S::kGroup != 0) scale = load_pairs(scales + b * kBlockRows * S::kScaleSize);
#pragma unroll
      for (int i = 0; i < kBlocks16; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const RowPair& rows = e % 2 == 0 ? scale.even : scale.odd;
          sums[2 * (block + b)][i][e] += rows.upper * t[b][0][i][e];
          sums[2 * (block + b) + 1][i][e] += rows.lower * t[b][1][i][e];
        }
    }
  }

  SLUICE_DEVICE static RowPairs load_pairs(u32 address) {
    return sluice::load_pairs<kConfig.weights.scale>(address);
  }

  u32 token_row_, codes_, scales_;  // offsets of this lane's data in a stage
  RowPairs row_zeros_[S::kGroup == 0 && S::kStoredZeros ? S::kBlocks : 1];
};

}  // namespace sluice::packed
