// SPDX-License-Identifier: Apache-2.0
// Step 2: tiles in shared memory. A CTA makes 64 x 64 elements of D. For each 16 columns of k its threads
// copy the 64 rows of A and the 64 rows of B into shared memory once, and all read them there.
//
// What it adds: reuse, twice. A tile's element is read from memory once and used 64 times. And a thread makes
// 4 x 4 elements, so that 8 values from shared memory feed 16 multiply-adds: registers are the second level
// of the same idea. The tiles are stored as floats with k outermost, so that the threads of a warp read
// neighbouring words. What it leaves out: overlap. Everybody copies, waits, multiplies, waits: while a tile
// is on its way from memory (some 600 ns) the CTA has nothing to do.
#include "ladder.h"

namespace ladder {

constexpr Launch kLaunch = kSteps[1];
constexpr int kTile = 64, kDepth = kLaunch.tile_k, kOwn = 4;

__device__ float to_float(bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value) << 16);
}

/// 64 rows and 16 columns of a matrix with rows of k elements; thread t copies four elements of row t / 4.
__device__ void copy_tile(float (&tile)[kDepth][kTile + 1], const bf16* first, int k) {
  const int row = threadIdx.x / 4, column = threadIdx.x % 4 * 4;
  for (int i = 0; i < 4; ++i) tile[column + i][row] = to_float(first[size_t(row) * k + column + i]);
}

}  // namespace ladder

extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ ladder::Params p) {
  using namespace ladder;
  __shared__ float a[kDepth][kTile + 1],
      b[kDepth][kTile + 1];  // one column more: rows begin in different banks
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  const int own_row = threadIdx.x / 16 * kOwn, own_column = threadIdx.x % 16 * kOwn;
  float sums[kOwn][kOwn] = {};
  for (int start = 0; start < p.k; start += kDepth) {
    copy_tile(a, p.a + size_t(first_row) * p.k + start, p.k);
    copy_tile(b, p.b + size_t(first_column) * p.k + start, p.k);
    __syncthreads();  // the tiles are there
    for (int i = 0; i < kDepth; ++i)
      for (int row = 0; row < kOwn; ++row)
        for (int column = 0; column < kOwn; ++column)
          sums[row][column] += a[i][own_row + row] * b[i][own_column + column];
    __syncthreads();  // the tiles may be overwritten
  }
  for (int row = 0; row < kOwn; ++row)
    for (int column = 0; column < kOwn; ++column)
      p.d[size_t(first_row + own_row + row) * p.n + first_column + own_column + column] = sums[row][column];
}
