// SPDX-License-Identifier: Apache-2.0
// The plain reference of packed products, in fp64 on the GPU. Each warp computes output rows one after the
// other: its lanes divide k, for four tokens at a time. It shares no code with device/. Launched by
// check/packed_check.cc.
#pragma once

#include <sluice/kernels/packed_reference.h>

namespace sluice::packed {

inline constexpr int kReferenceTokens = 4;

SLUICE_DEVICE double load_number(DType type, const void* base, i64 element) {
  switch (bits_of(type)) {
    case 8: return verify::decode(type, static_cast<const u8*>(base)[element]);
    case 16: return verify::decode(type, static_cast<const u16*>(base)[element]);
    default: return verify::decode(type, static_cast<const u32*>(base)[element]);
  }
}

SLUICE_DEVICE void sum_reference(const PackedReferenceParams& p) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const i64 warps = static_cast<i64>(gridDim.x) * (blockDim.x / 32);
  const i64 groups = group_count(p.weights, p.k);
  for (i64 row = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) / 32; row < p.n; row += warps)
    for (i64 first = 0; first < p.m; first += kReferenceTokens) {
      PackedSum sums[kReferenceTokens];
      for (i64 k = lane; k < p.k; k += 32) {
        const i64 group = row * groups + (p.weights.group == 0 ? 0 : k / p.weights.group);
        const double scale = load_number(p.weights.scale, p.scales, group);
        const double zero = p.weights.zero == ScaleZero::per_group
                                ? load_number(p.weights.scale, p.zeros, group)
                                : implied_zero(p.weights.type);
        const Weight weight = weight_of(p.weights, p.x_type, p.codes[row * p.k + k], scale, zero);
#pragma unroll
        for (int t = 0; t < kReferenceTokens; ++t) {
          const double x = first + t < p.m ? load_number(p.x_type, p.x, (first + t) * p.ld_x + k) : 0.0;
          sums[t].value = fma(x, weight.value, sums[t].value);
          sums[t].magnitude = fma(fabs(x), weight.magnitude, sums[t].magnitude);
          sums[t].rounding = fma(fabs(x), weight.rounding, sums[t].rounding);
          sums[t].squares = fma(x * x, weight.spread_squared, sums[t].squares);
        }
      }
#pragma unroll
      for (int t = 0; t < kReferenceTokens; ++t) {
        for (int lanes = 16; lanes > 0; lanes /= 2) {
          sums[t].value += __shfl_xor_sync(~0u, sums[t].value, lanes);
          sums[t].magnitude += __shfl_xor_sync(~0u, sums[t].magnitude, lanes);
          sums[t].rounding += __shfl_xor_sync(~0u, sums[t].rounding, lanes);
          sums[t].squares += __shfl_xor_sync(~0u, sums[t].squares, lanes);
        }
        if (lane == 0 && first + t < p.m) p.sums[(first + t) * p.n + row] = sums[t];
      }
    }
}

}  // namespace sluice::packed
