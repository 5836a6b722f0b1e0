// SPDX-License-Identifier: Apache-2.0
// A warp's sums of a tile by mma.sync, in fp32. fp16 and bf16 are used directly. fp8 is converted to fp16,
// which represents every e4m3 and e5m2, because Hopper has no mma.sync for fp8. A 16-bit element of ldmatrix
// then holds two k: lane 4 g + c gets k 4c .. 4c + 3 of 16, where mma's 16-bit fragment has 2c, 2c + 1, 2c +
// 8, 2c + 9. A and B are permuted in the same way, so the sums stay the same.
#pragma once

#include <sluice/device/plain/copier.cuh>
#include <sluice/device/ptx/fp8.cuh>
#include <sluice/device/ptx/mma.cuh>
#include <sluice/device/ptx/shared.cuh>

namespace sluice::plain {

template <KernelConfig kConfig>
class TileSums {
  static constexpr int kBlocks = kConfig.tile.n / 16, kTokenBlocks = kConfig.tile.m / 8;
  static constexpr bool kFp8 = is_fp8(kConfig.a), kBlockScales = is_block_scaled(kConfig.epilogue);

 public:
  float sums[kBlocks][kTokenBlocks][4] = {};

  // The interface of GroupSums: a warp needs no barrier, and its sums are complete at once.
  SLUICE_DEVICE static void meet(int) { __syncwarp(); }
  SLUICE_DEVICE static void finish() {}

  SLUICE_DEVICE void add_tile(u32 stage, int lane) {
    if constexpr (kBlockScales) {
      float block_sums[kBlocks][kTokenBlocks][4] = {};
      add_products(stage, lane, block_sums);
      add_scaled(stage, lane, block_sums);
    } else {
      add_products(stage, lane, sums);
    }
  }

 private:
  using Sums = float[kBlocks][kTokenBlocks][4];

  SLUICE_DEVICE static u32 piece(u32 rows, int row, int index) {
    return rows + row * kPlainRowBytes + (index ^ row % 8) * kPiece;
  }

  SLUICE_DEVICE static void add_products(u32 stage, int lane, Sums& to) {
#pragma unroll
    for (int step = 0; step < 4; step += 2) {  // 64 bytes of k
      u32 tokens[kTokenBlocks][4];
#pragma unroll
      for (int j = 0; j < kTokenBlocks; ++j) {
        const int row = 8 * j + lane % 8;
        ptx::load_matrices(piece(stage + kConfig.tile.n * kPlainRowBytes, row, 2 * step + lane / 8),
                           tokens[j][0], tokens[j][1], tokens[j][2], tokens[j][3]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) add_step(stage, lane, step + half, half, tokens, to);
    }
  }

  /// Adds the sums of a k-tile times its block scales (copier.cuh). A lane's rows of B are `lane` / 4 of each
  /// eight: gated, of two neighbouring pairs one is the gate's and one is "up"'s.
  SLUICE_DEVICE void add_scaled(u32 stage, int lane, const Sums& block_sums) {
    const u32 scales = stage + plain_scales_offset(kConfig);
    const int part = kConfig.epilogue.gated ? lane / 8 % 2 : 0;
    const float of_b = ptx::load_shared(scales + 4 * (kConfig.tile.m + part));
#pragma unroll
    for (int j = 0; j < kTokenBlocks; ++j) {
      float first, second;
      ptx::load_shared_v2(scales + 4 * (8 * j + lane % 4 * 2), first, second);
      first *= of_b;
      second *= of_b;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        float(&sum)[4] = sums[block][j];
        const float(&added)[4] = block_sums[block][j];
        sum[0] += first * added[0];
        sum[1] += second * added[1];
        sum[2] += first * added[2];
        sum[3] += second * added[3];
      }
    }
  }

  /// Adds 32 bytes of k: one instruction for 16-bit elements, two for fp8.
  SLUICE_DEVICE static void add_step(u32 stage, int lane, int step, int half,
                                     const u32 (&tokens)[kTokenBlocks][4], Sums& to) {
    u32 b[kTokenBlocks][kFp8 ? 4 : 2];
#pragma unroll
    for (int j = 0; j < kTokenBlocks; ++j) {
      if constexpr (kFp8) {
        ptx::expand_fp8<kConfig.a>(tokens[j][2 * half], b[j][0], b[j][1]);
        ptx::expand_fp8<kConfig.a>(tokens[j][2 * half + 1], b[j][2], b[j][3]);
      } else {
        b[j][0] = tokens[j][2 * half];
        b[j][1] = tokens[j][2 * half + 1];
      }
    }
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int row = 16 * block + lane % 16;
      u32 loaded[4];
      ptx::load_matrices(piece(stage, row, 2 * step + lane / 16), loaded[0], loaded[1], loaded[2], loaded[3]);
      if constexpr (kFp8) {
        u32 first[4], second[4];
        ptx::expand_fp8<kConfig.b>(loaded[0], first[0], first[2]);
        ptx::expand_fp8<kConfig.b>(loaded[1], first[1], first[3]);
        ptx::expand_fp8<kConfig.b>(loaded[2], second[0], second[2]);
        ptx::expand_fp8<kConfig.b>(loaded[3], second[1], second[3]);
#pragma unroll
        for (int j = 0; j < kTokenBlocks; ++j) {
          ptx::mma_m16n8k16<DType::fp16>(to[block][j], first, b[j][0], b[j][1], to[block][j]);
          ptx::mma_m16n8k16<DType::fp16>(to[block][j], second, b[j][2], b[j][3], to[block][j]);
        }
      } else {
#pragma unroll
        for (int j = 0; j < kTokenBlocks; ++j)
          ptx::mma_m16n8k16<kConfig.a>(to[block][j], loaded, b[j][0], b[j][1], to[block][j]);
      }
    }
  }
};

}  // namespace sluice::plain
