// SPDX-License-Identifier: Apache-2.0
// Computes a scale from the largest magnitude of the values that share it, for all quantising kernels.
// kernels/quantize.cuh states the rule; kernels/norm.cuh uses it too.
#pragma once

#include <sluice/spec/quantize.h>

namespace sluice::quantize {

/// Eight neighbouring values of a row; zeros past its end.
struct Chunk {
  float values[kQuantizeChunk];
};

/// Bits of the largest |x|. As integers they compare like |x|, with NaN above all.
SLUICE_DEVICE u32 magnitude(const Chunk& chunk) {
  u32 largest = 0;
#pragma unroll
  for (const float value : chunk.values) {
    const u32 bits = __builtin_bit_cast(u32, value) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

/// The largest value of `lanes` neighbouring lanes, a power of two. Call from the whole warp.
SLUICE_DEVICE u32 largest_of_lanes(u32 bits, int lanes) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    if (distance >= lanes) continue;
    const u32 other = static_cast<u32>(__shfl_xor_sync(~0u, bits, distance));
    bits = other > bits ? other : bits;
  }
  return bits;
}

struct Scale {
  float multiplier;  // multiplies the input
  float scale;       // multiplies the output
};
SLUICE_DEVICE Scale scale_of(u32 amax_bits) {
  const u32 smallest = __builtin_bit_cast(u32, kSmallestAmax);
  const float amax = __builtin_bit_cast(float, amax_bits > smallest ? amax_bits : smallest);
  return {1.0f / amax * kE4m3Largest, amax * (1.0f / kE4m3Largest)};
}

/// Converts to e4m3; the results are in memory order.
template <class Arith>
SLUICE_DEVICE void to_e4m3(const Chunk& chunk, float multiplier, u32 (&words)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float* v = chunk.values + 4 * i;
    words[i] = Arith::pack(v[0] * multiplier, v[1] * multiplier) |
               Arith::pack(v[2] * multiplier, v[3] * multiplier) << 16;
  }
}

}  // namespace sluice::quantize
