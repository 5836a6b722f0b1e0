// SPDX-License-Identifier: Apache-2.0
// Copies a warp's k-tiles into its ring: rows of 128 bytes of B, then of A, their 16-byte pieces swizzled by
// the row. Rows and k outside a matrix become zeros and are not read. Gated, each four rows are two rows of
// the gate and the two matching rows of "up". So a lane with four neighbouring sums has both halves of two
// elements of D. n is a multiple of 16, so either all four rows are inside B or none.
#pragma once

#include <sluice/spec/params.h>
#include <sluice/spec/plain.h>
#include <sluice/device/ptx/async_copy.cuh>

namespace sluice::plain {

inline constexpr int kPiece = 16;    // bytes that a lane copies at once
inline constexpr int kCopyRows = 4;  // rows that a warp copies at once, with eight lanes each

/// A thread's place: the CTA's tile, its team (spec/plain.h), and the team's stages and ring.
struct Place {
  int lane, team, rank;               // lane: index among the team's threads
  int first_row, first_token, batch;  // first row of B, first row of A
  int first_stage, count;             // stages along k: first_stage, first_stage + teams, ..
  u32 ring;
};

/// The row of B at position `row` of the tile.
template <KernelConfig kConfig>
SLUICE_DEVICE i64 row_of_b(const GemmParams& params, const Place& at, int row) {
  if constexpr (kConfig.epilogue.gated)
    return at.first_row / 2 + row / 4 * 2 + row % 2 + i64{row / 2 % 2} * (params.n / 2);
  return at.first_row + row;
}

template <KernelConfig kConfig>
class Copier {
  static constexpr int kElement = bytes_of(kConfig.a);

 public:
  SLUICE_DEVICE Copier(const GemmParams& params, const Place& at)
      : four_rows_b_(outputs_of(kConfig.epilogue, kCopyRows) * kElement * params.b_ld),
        four_rows_a_(kCopyRows * kElement * params.a_ld),
        policy_(ptx::evict_first_policy()) {
    const int row = at.lane / 8;
    const i64 k = static_cast<i64>(at.first_stage) * kPlainRowBytes + at.lane % 8 * kPiece;  // in bytes
    b_ = static_cast<const u8*>(params.b) + k +
         kElement * (at.batch * params.b_batch_stride + row_of_b<kConfig>(params, at, row) * params.b_ld);
    a_ = static_cast<const u8*>(params.a) + k +
         kElement * (at.batch * params.a_batch_stride + (at.first_token + row) * params.a_ld);
    rows_left_ = params.n - at.first_row - row;
    tokens_left_ = params.m - at.first_token - row;
    k_left_ = static_cast<i64>(params.k) * kElement - k;
    const u32 even = row * kPlainRowBytes + (at.lane % 8 ^ row) * kPiece;
    even_ = even;
    odd_ = even ^ 4 * kPiece;  // rows 4 .. 7 of each 8: the other half of the pieces
  }

  /// Copies the next tile to `stage`.
  SLUICE_DEVICE void copy(u32 stage) {
    copy_weights(stage, 0);
    copy_tokens(stage);
  }
  /// Copies B's part of the tile that is `ahead` tiles after the next one.
  SLUICE_DEVICE void copy_weights(u32 stage, int ahead) const {
    const int step = ahead * kConfig.warps * kPlainRowBytes;
    const u32 bytes = piece_bytes(k_left_ - step);
    const u8* from = b_ + step;
#pragma unroll
    for (int i = 0; i < kConfig.tile.n / kCopyRows; ++i) {
      ptx::copy_16_bytes(stage + target(i), from, 4 * i < rows_left_ ? bytes : 0u, policy_);
      from += four_rows_b_;
    }
  }
  /// Copies A's part of the next tile, and advances to the tile after it.
  SLUICE_DEVICE void copy_tokens(u32 stage) {
    const u32 bytes = piece_bytes(k_left_);
    const u8* from = a_;
#pragma unroll
    for (int i = 0; i < kConfig.tile.m / kCopyRows; ++i) {
      ptx::copy_16_bytes(stage + kConfig.tile.n * kPlainRowBytes + target(i), from,
                         4 * i < tokens_left_ ? bytes : 0u);
      from += four_rows_a_;
    }
    b_ += kConfig.warps * kPlainRowBytes;
    a_ += kConfig.warps * kPlainRowBytes;
    k_left_ -= kConfig.warps * kPlainRowBytes;
  }

 private:
  SLUICE_DEVICE static u32 piece_bytes(i64 k_left) {
    return static_cast<u32>(k_left < kPiece ? (k_left < 0 ? 0 : k_left) : kPiece);
  }
  SLUICE_DEVICE u32 target(int i) const {
    return (i % 2 == 0 ? even_ : odd_) + i * kCopyRows * kPlainRowBytes;
  }

  const u8* b_;  // address of this lane's 16 bytes of the next tile
  const u8* a_;
  i64 four_rows_b_, four_rows_a_;  // bytes
  int rows_left_, tokens_left_;    // rows from this lane's first on
  i64 k_left_;                     // k left, in bytes, from this lane's first byte of the next tile on
  u32 even_, odd_;                 // this lane's offset in rows 0 .. 3 and 4 .. 7 of each 8
  u64 policy_;
};

}  // namespace sluice::plain
