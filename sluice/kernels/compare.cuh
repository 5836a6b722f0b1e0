// SPDX-License-Identifier: Apache-2.0
// Compares two results of one product in device memory, element by element. Launched by run/ops/compare.cc
// for races and tuners: a kernel whose result differs must not win by its time.
#pragma once

#include <sluice/kernels/compare_params.h>

namespace sluice {

/// CTAs of kCompareThreads threads share the elements; each warp adds its totals to those in memory.
SLUICE_DEVICE void compare(const CompareParams& params) {
  CompareTotals own;
  const i64 count = elements_of(params), step = i64{gridDim.x} * kCompareThreads;
  for (i64 i = i64{blockIdx.x} * kCompareThreads + threadIdx.x; i < count; i += step)
    add_element(params, i, own);
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    own.squares += __shfl_xor_sync(~0u, own.squares, lanes);
    own.differences += __shfl_xor_sync(~0u, own.differences, lanes);
    const u64 others = __shfl_xor_sync(~0u, own.worst, lanes);
    own.worst = others > own.worst ? others : own.worst;
    own.unlike += __shfl_xor_sync(~0u, own.unlike, lanes);
  }
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(&params.totals->squares, own.squares);
  atomicAdd(&params.totals->differences, own.differences);
  atomicMax(&params.totals->worst, own.worst);
  atomicAdd(&params.totals->unlike, own.unlike);
}

}  // namespace sluice
