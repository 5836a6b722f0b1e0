// SPDX-License-Identifier: Apache-2.0
// Step 3: a ring of tiles, copied in the background. Shared memory holds four stages, each a tile of A and
// one of B with 32 columns of k. cp.async copies 16 bytes from global to shared memory without using a
// register, and the thread continues at once. While one stage is multiplied, the next three are in flight.
//
// What it adds: overlap. The memory latency is hidden if computing three stages takes longer than one copy.
// One barrier per stage is enough. After it, all threads' copies of this stage have arrived, and all threads
// have finished reading the stage that is filled next. The tiles stay bf16, which halves the traffic of
// shared memory. A row has 64 bytes and 16 of padding, so that the rows which a warp reads together are in
// different banks. What it leaves out: the tensor cores. Every multiply-add is still a separate instruction.
#include "ladder.h"

namespace ladder {

constexpr Launch kLaunch = kSteps[2];
constexpr int kTile = 64, kDepth = kLaunch.tile_k, kStages = kLaunch.stages, kRow = kLaunch.row_bytes,
              kOwn = 4;
constexpr int kTileBytes = kTile * kRow;

__device__ void copy_16_bytes(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared::cta.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// Copies 16 bytes of row t / 4 of each matrix by thread t. Always ends a group of copies, even if nothing is
/// left to copy, so that "all but the newest two groups" means the same stage in every iteration.
__device__ void copy_stage(const Params& p, unsigned stage, int start) {
  if (start < p.k) {
    const int row = threadIdx.x / 4, column = threadIdx.x % 4 * 8;
    const unsigned to = stage + row * kRow + column * 2;
    copy_16_bytes(to, p.a + size_t(blockIdx.y * kTile + row) * p.k + start + column);
    copy_16_bytes(to + kTileBytes, p.b + size_t(blockIdx.x * kTile + row) * p.k + start + column);
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Returns two elements that are adjacent along k.
__device__ float2 read_pair(const char* row, int column) {
  const unsigned pair = *reinterpret_cast<const unsigned*>(row + column * 2);
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

}  // namespace ladder

extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ ladder::Params p) {
  using namespace ladder;
  extern __shared__ __align__(128) char ring[];
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(ring));
  // And every 16th row and column after them.
  const int own_row = threadIdx.x / 16, own_column = threadIdx.x % 16;
  float sums[kOwn][kOwn] = {};
  for (int stage = 0; stage < kStages - 1; ++stage)
    copy_stage(p, base + stage * 2 * kTileBytes, stage * kDepth);
  for (int tile = 0; tile < p.k / kDepth; ++tile) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2)
                 : "memory");  // this thread's copies of the tile have arrived
    __syncthreads();           // and those of all threads
    copy_stage(p, base + (tile + kStages - 1) % kStages * 2 * kTileBytes, (tile + kStages - 1) * kDepth);
    const char* a = ring + tile % kStages * 2 * kTileBytes;
    const char* b = a + kTileBytes;
    for (int i = 0; i < kDepth; i += 2) {
      float2 left[kOwn], right[kOwn];
      for (int own = 0; own < kOwn; ++own) {
        left[own] = read_pair(a + (own_row + 16 * own) * kRow, i);
        right[own] = read_pair(b + (own_column + 16 * own) * kRow, i);
      }
      for (int row = 0; row < kOwn; ++row)
        for (int column = 0; column < kOwn; ++column)
          sums[row][column] += left[row].x * right[column].x + left[row].y * right[column].y;
    }
  }
  for (int row = 0; row < kOwn; ++row)
    for (int column = 0; column < kOwn; ++column)
      p.d[size_t(blockIdx.y * kTile + own_row + 16 * row) * p.n + blockIdx.x * kTile + own_column +
          16 * column] = sums[row][column];
}
