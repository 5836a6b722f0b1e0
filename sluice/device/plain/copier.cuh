// SPDX-License-Identifier: Apache-2.0
// Copies a warp's k-tiles into its ring: rows of 128 bytes of B, then of A, their 16-byte pieces swizzled by
// the row. Rows and k outside a matrix become zeros and are not read. Gated, each four rows are two rows of
// the gate and the two matching rows of "up". So a lane with four neighbouring sums has both halves of two
// elements of D. n is a multiple of 16, so either all four rows are inside B or none.
#pragma once

#include <sluice/spec/params.h>
#include <sluice/spec/plain.h>
#include <sluice/device/optional_member.cuh>
#include <sluice/device/ptx/async_copy.cuh>

namespace sluice::plain {

inline constexpr int kPiece = 16;    // bytes that a lane copies at once
inline constexpr int kCopyRows = 4;  // rows that a warp copies at once, with eight lanes each

/// A thread's place: the CTA's tile, its team (spec/plain.h), and the team's stages and ring.
struct Place {
  int lane, team, rank;               // lane: index among the team's threads
  int first_row, first_token, batch;  // first row of B, first row of D, matrix of B
  int first_row_a, matrix;            // first row of A, matrix of A and D; with slots there is one matrix
  int first_stage, count;             // stages along k: first_stage, first_stage + teams, ..
  u32 ring;
};

/// Rows of A from the tile's first on.
template <KernelConfig kConfig>
SLUICE_DEVICE int tokens_of(const GemmParams& params, const Place& at) {
  return by_slots(kConfig) ? 1 : params.m - at.first_token;
}

/// The row of B at position `row` of the tile.
template <KernelConfig kConfig>
SLUICE_DEVICE i64 row_of_b(const GemmParams& params, const Place& at, int row) {
  if constexpr (kConfig.epilogue.gated)
    return at.first_row / 2 + row / 4 * 2 + row % 2 + i64{row / 2 % 2} * (params.n / 2);
  return at.first_row + row;
}

/// Copies the block scales of a warp's k-tiles behind the rows of their stages. Those of A come first, one
/// per row and zeros for rows outside. Then one follows per part of the tile's columns (plain_scale_parts).
template <KernelConfig kConfig>
class ScaleCopier {
 public:
  ScaleCopier() = default;
  SLUICE_DEVICE ScaleCopier(const GemmParams& params, const Place& at) : lane_(at.lane) {
    const i64 k_blocks = params.grid.k_tiles;
    rows_left_ = tokens_of<kConfig>(params, at);
    if constexpr (kConfig.scale_a_columns) {
      row_step_ = 1;
      k_step_ = scale_a_ld(params);
      a_ = params.scale_a + at.matrix * k_blocks * k_step_;
    } else {
      row_step_ = k_blocks;
      k_step_ = 1;
      a_ = params.scale_a + at.matrix * params.m * k_blocks;
    }
    a_ += at.first_row_a * row_step_ + at.first_stage * k_step_;
    // A tile's columns of either half lie in one block of 128: n / 2 is a multiple of it. The third row of a
    // gated tile is the first of "up".
    const i64 column = row_of_b<kConfig>(params, at, 2 * at.lane);
    const i64 blocks = ceil_div(params.n, kScaleBlock);
    b_ = params.scale_b + (at.batch * blocks + column / kScaleBlock) * k_blocks + at.first_stage;
  }
  SLUICE_DEVICE void copy_of_weights(u32 stage, int ahead) const {
    if (lane_ < plain_scale_parts(kConfig))
      ptx::copy_4_bytes(target(stage, kConfig.tile.m + lane_), b_ + ahead * kConfig.warps, 4);
  }
  /// Also advances to the scales of the next tile.
  SLUICE_DEVICE void copy_of_tokens(u32 stage) {
#pragma unroll
    for (int first = 0; first < kConfig.tile.m; first += 32) {
      const int row = first + lane_;
      if (row >= kConfig.tile.m) break;
      ptx::copy_4_bytes(target(stage, row), a_ + row * row_step_, row < rows_left_ ? 4 : 0);
    }
    a_ += kConfig.warps * k_step_;
    b_ += kConfig.warps;
  }

 private:
  SLUICE_DEVICE static u32 target(u32 stage, int index) {
    return stage + plain_scales_offset(kConfig) + 4 * index;
  }
  SLUICE_DEVICE static i64 scale_a_ld(const GemmParams& params) {
    if constexpr (reads_table(kConfig)) return static_cast<const GroupedParams&>(params).scale_a_ld;
    return static_cast<const FactoredParams&>(params).scale_a_ld;
  }

  const float* a_;         // scale of the tile's first row
  const float* b_;         // scale of this lane's part of the columns
  i64 row_step_, k_step_;  // from the scale of one row of A, or k-tile, to that of the next
  int rows_left_, lane_;
};

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
         kElement * (at.matrix * params.a_batch_stride + (at.first_row_a + row) * params.a_ld);
    rows_left_ = params.n - at.first_row - row;
    tokens_left_ = tokens_of<kConfig>(params, at) - row;
    k_left_ = static_cast<i64>(params.k) * kElement - k;
    const u32 even = row * kPlainRowBytes + (at.lane % 8 ^ row) * kPiece;
    even_ = even;
    odd_ = even ^ 4 * kPiece;  // rows 4 .. 7 of each 8: the other half of the pieces
    if constexpr (is_block_scaled(kConfig.epilogue)) scales_ = ScaleCopier<kConfig>(params, at);
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
    if constexpr (is_block_scaled(kConfig.epilogue)) scales_.copy_of_weights(stage, ahead);
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
    if constexpr (is_block_scaled(kConfig.epilogue)) scales_.copy_of_tokens(stage);
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
  Optional<is_block_scaled(kConfig.epilogue), ScaleCopier<kConfig>> scales_;
};

}  // namespace sluice::plain
