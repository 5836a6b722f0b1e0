// SPDX-License-Identifier: Apache-2.0
// CUDA's names for what kernels use outside of PTX wrappers, on a simulated CTA. Include it before kernels.
#pragma once

#include <cmath>

#include "simulated_cta.h"

namespace simulated {

/// A value of 32 bits that another lane of the warp has.
template <class T>
T from_lane(T value, int lane) {
  static_assert(sizeof(T) == 4);
  const unsigned me = thread_index.x % kLanes;
  Lanes& lanes = cta.lanes();
  std::memcpy(&lanes.in[me][0], &value, 4);
  lanes.in[me][1] = static_cast<u32>(lane) % kLanes;
  cta.meet_warp(Step::shuffle, [&] {
    for (int i = 0; i < kLanes; ++i) lanes.out[i][0] = lanes.in[lanes.in[i][1]][0];
  });
  std::memcpy(&value, &lanes.out[me][0], 4);
  return value;
}

}  // namespace simulated

#define threadIdx simulated::thread_index
#define blockIdx simulated::block_index
#define blockDim simulated::block_size
#define gridDim simulated::grid_size
#define __shared__
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace sluice {
alignas(1024) inline u8 smem[16];  // only its address is used: what is in shared memory is in the CTA
}  // namespace sluice

struct uint2 {
  sluice::u32 x, y;
};
struct uint4 {
  sluice::u32 x, y, z, w;
};
struct float4 {
  float x, y, z, w;
};
inline void __syncthreads() {
  simulated::cta.sync_block();
}
inline void __syncwarp() {
  simulated::cta.sync_warp();
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return simulated::from_lane(value, lane);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
  return simulated::from_lane(value, static_cast<int>(simulated::thread_index.x) ^ lanes);
}
inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned chosen) {
  const unsigned long long all = low | static_cast<unsigned long long>(high) << 32;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(all >> 8 * (chosen >> 4 * i & 7) & 0xff) << 8 * i;
  return result;
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
