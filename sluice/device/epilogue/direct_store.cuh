// SPDX-License-Identifier: Apache-2.0
// Stores two neighbouring elements of D from registers to global memory. Used for a D that TMA cannot
// address, and for kernels without store buffers. Nothing is written outside D.
#pragma once

#include <sluice/device/element.cuh>
#include <sluice/device/epilogue/element_wise.cuh>
#include <sluice/device/ptx/global.cuh>

namespace sluice {

/// Stores the pair, or adds it to memory (Update::add: D is fp32). `at` is the pair's position in D, of which
/// rows from `row_end` on are not stored.
template <DType kD, Epilogue kEpilogue>
SLUICE_DEVICE void store_pair(const GemmParams& params, const Position& at, const Pair& value, int row_end) {
  if (at.row >= row_end) return;
  const i64 index = at.batch * params.d_batch_stride + at.row * params.d_ld + at.column;
  const u64 address = reinterpret_cast<u64>(params.d) + index * bytes_of(kD);
  const bool aligned_pair =
      at.column + 1 < outputs_of(kEpilogue, params.n) && address % (2 * bytes_of(kD)) == 0;
  if constexpr (adds(kEpilogue)) {
    float* d = static_cast<float*>(params.d) + index;
    if (aligned_pair) return ptx::add_global(d, value.x, value.y);
    if (at.column < outputs_of(kEpilogue, params.n)) ptx::add_global(d, value.x);
    if (at.column + 1 < outputs_of(kEpilogue, params.n)) ptx::add_global(d + 1, value.y);
    return;
  }
  if (aligned_pair) return store_element_pair<kD>(params.d, index, value.x, value.y);
  if (at.column < outputs_of(kEpilogue, params.n)) store_element<kD>(params.d, index, value.x);
  if (at.column + 1 < outputs_of(kEpilogue, params.n)) store_element<kD>(params.d, index + 1, value.y);
}
template <DType kD, Epilogue kEpilogue>
SLUICE_DEVICE void store_pair(const GemmParams& params, const Position& at, const Pair& value) {
  store_pair<kD, kEpilogue>(params, at, value, params.m);
}

}  // namespace sluice
