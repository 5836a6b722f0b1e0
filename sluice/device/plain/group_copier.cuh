// SPDX-License-Identifier: Apache-2.0
// Copies a warpgroup's stages into its ring in WGMMA's layout: rows of 128 bytes with their 16-byte pieces
// swizzled by the row. B's rows come first (of each k-tile of the stage), then A's. Rows and k outside a
// matrix become zeros and are not read. Rows of gated tiles have the order of copier.cuh.
#pragma once

#include <sluice/device/plain/copier.cuh>

namespace sluice::plain {

template <KernelConfig kConfig>
class GroupCopier {
  static constexpr int kElement = bytes_of(kConfig.a), kUnits = stage_k_tiles(kConfig);
  static constexpr int kStep = teams(kConfig) * kUnits * kPlainRowBytes;  // bytes of k from a stage to the
                                                                          // team's next
  static constexpr int kRows = 16;  // rows that the group copies at once, with eight threads each

 public:
  /// `at.lane`: index among the warpgroup's threads.
  SLUICE_DEVICE GroupCopier(const GemmParams& params, const Place& at)
      : rows_b_(outputs_of(kConfig.epilogue, kRows) * kElement * params.b_ld),
        rows_a_(kRows * kElement * params.a_ld),
        policy_(ptx::evict_first_policy()) {
    const int row = at.lane / 8;
    const i64 k = static_cast<i64>(at.first_stage) * kUnits * kPlainRowBytes + at.lane % 8 * kPiece;  // bytes
    b_ = static_cast<const u8*>(params.b) + k +
         kElement * (at.batch * params.b_batch_stride + row_of_b<kConfig>(params, at, row) * params.b_ld);
    // In tiles of eight tokens two k-tiles are copied at once, if the stage has two.
    const int token = row % min(kRows, kConfig.tile.m), unit = row / min(kRows, kConfig.tile.m);
    a_ = static_cast<const u8*>(params.a) + k + unit * kPlainRowBytes +
         kElement * (at.batch * params.a_batch_stride + (at.first_token + token) * params.a_ld);
    rows_left_ = params.n - at.first_row - row;
    tokens_left_ = params.m - at.first_token - token;
    k_left_ = static_cast<i64>(params.k) * kElement - k;
    first_unit_ = unit;
    target_ = row * kPlainRowBytes + (at.lane % 8 ^ row % 8) * kPiece;
  }

  /// Copies the next stage to `stage`.
  SLUICE_DEVICE void copy(u32 stage) {
    copy_weights(stage, 0);
    copy_tokens(stage);
  }
  /// Copies B's part of the stage that is `ahead` stages after the next one.
  SLUICE_DEVICE void copy_weights(u32 stage, int ahead) const {
    constexpr int kCopies = ceil_div(kUnits * kConfig.tile.n, kRows);
    const i64 left = k_left_ - ahead * kStep;
    // If the tile ends in the middle of a copy, half of the threads skip it: they would overwrite A's rows.
    const int copies =
        kConfig.tile.n % kRows != 0 && target_ >= kRows / 2 * kPlainRowBytes ? kCopies - 1 : kCopies;
    const u8* from = b_ + ahead * kStep;
    const u32 to = stage + target_;
    if (left >= (kUnits - 1) * kPlainRowBytes + kPiece) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i)
        if (kConfig.tile.n % kRows == 0 || i < copies)
          ptx::copy_16_bytes_if(to + i * kRows * kPlainRowBytes, of_b(from, i), row_of(i) < rows_left_,
                                policy_);
    } else {
#pragma unroll
      for (int i = 0; i < kCopies; ++i)
        if (kConfig.tile.n % kRows == 0 || i < copies)
          ptx::copy_16_bytes(to + i * kRows * kPlainRowBytes, of_b(from, i),
                             row_of(i) < rows_left_ ? piece_bytes(left, unit_of(i)) : 0u, policy_);
    }
  }
  /// Copies A's part of the next stage, and advances to the stage after it.
  SLUICE_DEVICE void copy_tokens(u32 stage) {
    constexpr int kAll = stage_columns(kConfig);
    const u32 to = stage + kUnits * kConfig.tile.n * kPlainRowBytes + target_;
    if (kAll >= kRows || first_unit_ < kUnits) {
#pragma unroll
      for (int i = 0; i < max(1, kAll / kRows); ++i) {
        constexpr int kTokens = kConfig.tile.m;
        const int token = i * kRows % kTokens, unit = i * kRows / kTokens;
        ptx::copy_16_bytes(to + i * kRows * kPlainRowBytes,
                           a_ + token / kRows * rows_a_ + unit * kPlainRowBytes,
                           token < tokens_left_ ? piece_bytes(k_left_, unit + first_unit_) : 0u);
      }
    }
    b_ += kStep;
    a_ += kStep;
    k_left_ -= kStep;
  }

 private:
  SLUICE_DEVICE static constexpr int row_of(int i) {
    return i * kRows % kConfig.tile.n;
  }
  SLUICE_DEVICE static constexpr int unit_of(int i) {
    return i * kRows / kConfig.tile.n;
  }
  SLUICE_DEVICE const u8* of_b(const u8* from, int i) const {
    return from + row_of(i) / kRows * rows_b_ + unit_of(i) * kPlainRowBytes;
  }
  SLUICE_DEVICE static u32 piece_bytes(i64 left, int unit) {
    const i64 bytes = left - unit * kPlainRowBytes;
    return static_cast<u32>(bytes < kPiece ? (bytes < 0 ? 0 : bytes) : kPiece);
  }

  const u8* b_;  // address of this thread's 16 bytes of the next stage
  const u8* a_;
  i64 rows_b_, rows_a_;          // bytes from a thread's row to the row of its next copy
  int rows_left_, tokens_left_;  // rows from the thread's first on
  i64 k_left_;                   // k left, in bytes, from the thread's first byte of the next stage on
  int first_unit_;               // k-tile in the stage of its first tokens
  u32 target_;
  u64 policy_;
};

}  // namespace sluice::plain
