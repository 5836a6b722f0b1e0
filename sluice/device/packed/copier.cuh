// SPDX-License-Identifier: Apache-2.0
// Copies a warp's k-tiles into its ring, one after the other. Codes have blob order; all scales and zeros of
// the strips follow, then tokens in rows of 64 k with swizzled 16-byte pieces. Elements past the end of k
// become zeros and are not read.
// In tiles of 8 tokens, tokens that do not exist become zeros too; otherwise a single token would be read
// eight times. Wider tiles are mostly full and copy the last token instead. That saves two instructions per
// row, and the results are not stored. gamma of a norm is copied with the weights.
#pragma once

#include <sluice/device/packed/place.cuh>
#include <sluice/device/ptx/async_copy.cuh>

namespace sluice::packed {

template <NarrowConfig kConfig>
class Copier {
  using S = Shape<kConfig>;
  static constexpr bool kFills = S::kTokenBlocks == 1, kAlone = S::kHeld == 1;
  static constexpr int kQuads = max(1, S::kHeld / 4);  // quads of rows of tokens

 public:
  SLUICE_DEVICE Copier(const NarrowParams& params, const Place& at)
      : lane_(at.lane),
        strip_pitch_(strip_step(kConfig, params.n) * params.strip_bytes),
        policy_(ptx::evict_first_policy()) {
    const int half_strip = S::kStripBlocks == 4 ? 0 : at.first_row % kStripRows / kBlockRows * kWarpCopy;
    const u8* tile = static_cast<const u8*>(params.weights) + at.first_row / kStripRows * params.strip_bytes +
                     static_cast<i64>(at.first_tile) * S::kTileBytes + at.lane * kLaneBytes;
    scales_ = tile + S::kTileCodes;
    codes_ = tile + half_strip;
    const int row = kAlone ? 0 : at.lane / 8;
    const int k = at.first_tile * kPackedTileK + (kAlone ? at.lane % 16 : at.lane % 8) * 8;
    x_ = static_cast<const u8*>(params.x) + 2 * (at.first_token * params.ld_x + k);
    k_left_ = params.k - k;
    if constexpr (kConfig.norm_a) {
      const int first = at.first_tile * kPackedTileK + at.lane % 16 * kPiece;
      gamma_ = static_cast<const u8*>(params.gamma) + 2 * first;
      gamma_left_ = params.k - first;
    }
    tokens_left_ = params.m - at.first_token - row;
    const int last = params.m - 1 - at.first_token;
#pragma unroll
    for (int i = 0; i < kQuads; ++i)
      token_offsets_[i] =
          static_cast<u32>(min(4 * i + row, kFills ? S::kTokens : last)) * static_cast<u32>(2 * params.ld_x);
    even_ = kAlone ? at.lane % 16 * kLaneBytes : row * 128 + (at.lane % 8 ^ row) * kLaneBytes;
  }

  /// Copies the next tile to `stage`.
  SLUICE_DEVICE void copy(u32 stage) {
    copy_weights(stage, 0);
    copy_tokens(stage);
  }
  /// Copies the weights of the tile that is `ahead` tiles after the next one.
  SLUICE_DEVICE void copy_weights(u32 stage, int ahead) const {
    const u32 to = stage + S::kTokenBytes + lane_ * kLaneBytes;
    const int skipped = ahead * kConfig.warps * S::kTileBytes;
#pragma unroll
    for (int s = 0; s < S::kStrips; ++s) {
      copy_codes(to + s * S::kCodeBytes, codes_ + s * strip_pitch_ + skipped);
      copy_scales(to + S::kStrips * S::kCodeBytes + s * S::kScaleBytes, scales_ + s * strip_pitch_ + skipped);
    }
    if constexpr (kConfig.norm_a) copy_gamma(stage + S::kGamma, ahead * kConfig.warps * kPackedTileK);
  }
  /// Copies the tokens of the next tile, and advances to the tile after it.
  SLUICE_DEVICE void copy_tokens(u32 stage) {
    copy_token_pieces(stage);
    if constexpr (kConfig.norm_a) {
      gamma_ += kConfig.warps * kPackedTileK * 2;
      gamma_left_ -= kConfig.warps * kPackedTileK;
    }
    codes_ += kConfig.warps * S::kTileBytes;
    scales_ += kConfig.warps * S::kTileBytes;
    x_ += kConfig.warps * kPackedTileK * 2;
    k_left_ -= kConfig.warps * kPackedTileK;
  }

 private:
  SLUICE_DEVICE void copy_codes(u32 to, const u8* from) const {
#pragma unroll
    for (int i = 0; i < S::kCodeBytes / kWarpCopy; ++i) {
      const int chunk = i / S::kStripBlocks, block = i % S::kStripBlocks;
      ptx::copy_16_bytes(to + i * kWarpCopy, from + (4 * chunk + block) * kWarpCopy, policy_);
    }
  }
  SLUICE_DEVICE void copy_scales(u32 to, const u8* from) const {
#pragma unroll
    for (int begin = 0; begin < S::kScaleBytes; begin += kWarpCopy)
      if (begin + lane_ * kLaneBytes < S::kScaleBytes) ptx::copy_16_bytes(to + begin, from + begin, policy_);
  }
  /// Copies a tile's gamma to one row, with half of the lanes; zeros past its end.
  SLUICE_DEVICE void copy_gamma(u32 to, int skipped) const {
    if (lane_ < 16)
      ptx::copy_16_bytes(to + lane_ * kLaneBytes, gamma_ + 2 * skipped,
                         static_cast<u32>(2 * min(kPiece, max(0, gamma_left_ - skipped))));
  }
  /// Copies four rows of half a tile's k at once; a single row is copied with all its k by half of the lanes.
  /// Pieces are shorter than 16 bytes only where k ends inside one.
  SLUICE_DEVICE void copy_token_pieces(u32 stage) const {
    if constexpr (kAlone) {
      if (threadIdx.x % 32 >= 16) return;
      const u32 bytes = static_cast<u32>(2 * min(kPiece, max(0, k_left_)));
      if (is_part(k_left_))
        ptx::copy_16_bytes(stage + even_, x_, bytes);
      else
        ptx::copy_16_bytes_if(stage + even_, x_, k_left_ > 0);
      return;
    }
    const int left[2] = {k_left_, k_left_ - kPackedTileK / 2};  // k left in each half
    if (is_part(left[0]) || is_part(left[1]))
      copy_rows(stage, [&](u32 to, const u8* from, bool inside, int half) {
        ptx::copy_16_bytes(to, from, inside ? static_cast<u32>(2 * min(kPiece, max(0, left[half]))) : 0u);
      });
    else
      copy_rows(stage, [&](u32 to, const u8* from, bool inside, int half) {
        ptx::copy_16_bytes_if(to, from, inside && left[half] > 0);
      });
  }
  template <class Copy>
  SLUICE_DEVICE void copy_rows(u32 stage, const Copy& copy_piece) const {
    const u32 even = stage + even_, odd = even ^ 4 * kLaneBytes;  // rows 4 .. 7 of each 8 use the other
                                                                  // pieces
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const u8* from = x_ + token_offsets_[i];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        copy_piece((i % 2 == 0 ? even : odd) + half * (S::kTokenBytes / 2) + i * 4 * 128,
                   from + half * kPackedTileK, !kFills || 4 * i < tokens_left_, half);
    }
  }
  static constexpr int kPiece = kLaneBytes / 2;  // elements of X per piece
  SLUICE_DEVICE static bool is_part(int k_left) {
    return k_left > 0 && k_left < kPiece;
  }

  int lane_;
  const u8* codes_;  // these three: address of this lane's next 16 bytes
  const u8* scales_;
  const u8* x_;
  i64 strip_pitch_;            // bytes from one strip of the CTA to the next
  u32 token_offsets_[kQuads];  // bytes from the first token to this lane's tokens
  u32 even_;                   // this lane's offset in rows 0 .. 3 of each 8, or in the single row
  int tokens_left_;            // tokens from this lane's first on
  int k_left_;                 // k left, from this lane's first k of the next tile on
  u64 policy_;
  const u8* gamma_;  // this lane's piece of gamma
  int gamma_left_;   // elements of gamma left, as k_left_
};

}  // namespace sluice::packed
