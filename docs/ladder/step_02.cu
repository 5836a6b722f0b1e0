// SPDX-License-Identifier: Apache-2.0
// Step 2: tiles in shared memory. A CTA computes 64 x 64 elements of D. For every 16 columns of k, its
// threads copy 64 rows of A and 64 rows of B to shared memory once, and all threads read them there.
//
// What it adds: reuse, on two levels. An element of a tile is read from memory once and used 64 times. And a
// thread computes 4 x 4 elements of D, so that 8 values from shared memory, held in registers, feed 16
// multiply-adds. The tiles are stored as floats with k outermost, so that the threads of a warp read
// neighbouring words. What it leaves out: overlap. The threads copy, wait, multiply, and wait again. While a
// tile is in flight from memory (some 600 ns), the CTA does nothing.
#include "ladder.h"

namespace ladder {

constexpr Launch kLaunch = kSteps[1];
constexpr int kTile = 64, kDepth = kLaunch.tile_k, kOwn = 4;

__device__ float to_float(bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value) << 16);
}

/// Copies 64 rows and 16 columns of a matrix whose rows have k elements. Thread t copies four elements of row
/// t / 4.
__device__ void copy_tile(float (&tile)[kDepth][kTile + 1], const bf16* first, int k) {
  const int row = threadIdx.x / 4, column = threadIdx.x % 4 * 4;
  for (int i = 0; i < 4; ++i) tile[column + i][row] = to_float(first[size_t(row) * k + column + i]);
}

}  // namespace ladder

extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ ladder::Params p) {
  using namespace ladder;
  __shared__ float a[kDepth][kTile + 1],
      b[kDepth][kTile + 1];  // one extra column, so that rows begin in different banks
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  const int own_row = threadIdx.x / 16 * kOwn, own_column = threadIdx.x % 16 * kOwn;
  float sums[kOwn][kOwn] = {};
  for (int start = 0; start < p.k; start += kDepth) {
    copy_tile(a, p.a + size_t(first_row) * p.k + start, p.k);
    copy_tile(b, p.b + size_t(first_column) * p.k + start, p.k);
    __syncthreads();  // the tiles are complete
    for (int i = 0; i < kDepth; ++i)
      for (int row = 0; row < kOwn; ++row)
        for (int column = 0; column < kOwn; ++column)
          sums[row][column] += a[i][own_row + row] * b[i][own_column + column];
    __syncthreads();  // all threads have read the tiles, so they may be overwritten
  }
  for (int row = 0; row < kOwn; ++row)
    for (int column = 0; column < kOwn; ++column)
      p.d[size_t(first_row + own_row + row) * p.n + first_column + own_column + column] = sums[row][column];
}
