// SPDX-License-Identifier: Apache-2.0
// Step 4: tensor cores, used by single warps. mma.sync multiplies 16 x 16 elements of A by 16 x 8 of B in one
// instruction of a whole warp. The CTA's tile grows to 128 x 128; each of its eight warps computes 64 rows
// and 32 columns.
//
// What it adds: 2048 multiply-adds per instruction instead of 32. The operands are in registers of the whole
// warp, in a fixed pattern. ldmatrix reads four 8 x 8 blocks from shared memory into that pattern. The
// pattern of the accumulators determines which elements of D a lane writes: rows g and g + 8, columns 2c and
// 2c + 1 for lane 4g + c. A row has 128 bytes and 16 of padding, so that the eight rows of a block are in
// different banks. What it leaves out: mma.sync reaches only a little over half of Hopper's rate. Warps also
// spend many instructions on addresses, copies and ldmatrix, which compete with mma for issue slots.
#include "ladder.h"

namespace ladder {

constexpr Launch kLaunch = kSteps[3];
constexpr int kTile = 128, kDepth = kLaunch.tile_k, kStages = kLaunch.stages, kRow = kLaunch.row_bytes;
constexpr int kTileBytes = kTile * kRow;

__device__ void copy_16_bytes(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared::cta.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// In each of four iterations, thread t copies 16 bytes of row 32 * iteration + t / 8 of each matrix.
__device__ void copy_stage(const Params& p, unsigned stage, int start) {
  if (start < p.k)
    for (int turn = 0; turn < 4; ++turn) {
      const int row = turn * 32 + threadIdx.x / 8, column = threadIdx.x % 8 * 8;
      const unsigned to = stage + row * kRow + column * 2;
      copy_16_bytes(to, p.a + size_t(blockIdx.y * kTile + row) * p.k + start + column);
      copy_16_bytes(to + kTileBytes, p.b + size_t(blockIdx.x * kTile + row) * p.k + start + column);
    }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Loads four 8 x 8 blocks: the upper and lower half of 16 rows, then the same rows 8 columns further along
/// k.
__device__ void load_16x16(unsigned (&out)[4], unsigned first_row, int column) {
  const int lane = threadIdx.x % 32;
  const unsigned address = first_row + lane % 16 * kRow + (column + lane / 16 * 8) * 2;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}

__device__ void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace ladder

extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ ladder::Params p) {
  using namespace ladder;
  extern __shared__ __align__(128) char ring[];
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(ring));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int own_row = warp / 4 * 64, own_column = warp % 4 * 32;
  float sums[4][4][4] = {};  // accumulators: [16 rows][8 columns][values of this lane]
  for (int stage = 0; stage < kStages - 1; ++stage)
    copy_stage(p, base + stage * 2 * kTileBytes, stage * kDepth);
  for (int tile = 0; tile < p.k / kDepth; ++tile) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncthreads();
    copy_stage(p, base + (tile + kStages - 1) % kStages * 2 * kTileBytes, (tile + kStages - 1) * kDepth);
    const unsigned a = base + tile % kStages * 2 * kTileBytes + own_row * kRow;
    const unsigned b = base + tile % kStages * 2 * kTileBytes + kTileBytes + own_column * kRow;
#pragma unroll
    for (int column = 0; column < kDepth; column += 16) {
      unsigned left[4][4], right[2][4];
      for (int i = 0; i < 4; ++i) load_16x16(left[i], a + i * 16 * kRow, column);
      for (int i = 0; i < 2; ++i) load_16x16(right[i], b + i * 16 * kRow, column);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
          multiply(sums[i][j], left[i], right[j / 2][j % 2], right[j / 2][j % 2 + 2]);
    }
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      for (int half = 0; half < 2; ++half) {
        const int row = blockIdx.y * kTile + own_row + i * 16 + half * 8 + lane / 4;
        const int column = blockIdx.x * kTile + own_column + j * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(p.d + size_t(row) * p.n + column) = {sums[i][j][half * 2],
                                                                        sums[i][j][half * 2 + 1]};
      }
}
