// SPDX-License-Identifier: Apache-2.0
// Step 1: the plain loop. One thread computes one element of D: it loops over k, multiplies and adds.
//
// What it shows: the whole problem. All further steps compute the same sums in another order. What it leaves
// out: reuse. Each element of A is read from memory by n threads, and each of B by m. Caches serve most of
// these reads, but every multiply-add still needs two loads, and an SM can start far fewer loads than
// multiply-adds. The loads are also of only two bytes each, and the threads of a warp read B in 16 different
// rows.
#include "ladder.h"

namespace ladder {

__device__ float to_float(bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value) << 16);
}

}  // namespace ladder

extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ ladder::Params p) {
  const int row = blockIdx.y * 16 + threadIdx.x / 16;
  const int column = blockIdx.x * 16 + threadIdx.x % 16;
  float sum = 0;
  for (int i = 0; i < p.k; ++i)
    sum += ladder::to_float(p.a[size_t(row) * p.k + i]) * ladder::to_float(p.b[size_t(column) * p.k + i]);
  p.d[size_t(row) * p.n + column] = sum;
}
