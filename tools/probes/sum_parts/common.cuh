// SPDX-License-Identifier: Apache-2.0
// Shared by all variants: addresses of units, the order of sums, stores of D, and the launch.
#pragma once

#include <sluice/device/ptx/global.cuh>
#include <sluice/device/ptx/mbarrier.cuh>
#include <sluice/device/ptx/sync.cuh>

#include "../harness.h"
#include "sums.h"

namespace probe {

using sluice::u32;
using sluice::u64;
using Float4 = sluice::ptx::Float4;
namespace ptx = sluice::ptx;

inline constexpr int kUnitFloats = 512;
inline constexpr int kUnitThreads = 128;

SLUICE_DEVICE Float4 load(const float* address) {
  Float4 v;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(address));
  return v;
}
SLUICE_DEVICE Float4 operator+(const Float4& a, const Float4& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

/// Returns the address of this thread's four floats of the first slice of `unit`.
SLUICE_DEVICE const float* place(const SumParams& p, int unit, int thread) {
  const int tile = sluice::quotient(unit, p.units_per_tile), inside = unit - tile * p.units_per_tile;
  return p.slots + static_cast<long>(tile) * p.parts * p.tile_floats + inside * kUnitFloats + thread * 4;
}
__host__ __device__ inline int first_part(const SumParams& p, int group) {
  return (p.parts * group) >> p.log_groups;
}

/// Adds slices in the present kernel's order: first within each group, then the groups' sums.
template <int kUnits>
struct OrderedSums {
  Float4 total[kUnits], group[kUnits];
  int next;  // first slice of the next group that has slices
  int group_index;
  bool any = false;  // true after the end of the first group

  SLUICE_DEVICE explicit OrderedSums(const SumParams& p) : next(0), group_index(0) { find_next(p, 0); }
  SLUICE_DEVICE void add(const SumParams& p, int part, const Float4 (&values)[kUnits]) {
    if (part == 0) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) group[u] = values[u];
    } else if (part == next) {
      end_group();
#pragma unroll
      for (int u = 0; u < kUnits; ++u) group[u] = values[u];
      find_next(p, part);
    } else {
#pragma unroll
      for (int u = 0; u < kUnits; ++u) group[u] = group[u] + values[u];
    }
  }
  SLUICE_DEVICE void end_group() {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) total[u] = any ? total[u] + group[u] : group[u];
    any = true;
  }

 private:
  SLUICE_DEVICE void find_next(const SumParams& p, int part) {
    while (group_index <= 1 << p.log_groups && first_part(p, group_index) <= part) ++group_index;
    next = first_part(p, group_index);
  }
};

SLUICE_DEVICE u32 bf16_pair(float low, float high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Stores kUnits adjacent units of one of 128 threads.
template <Store kStore, int kUnits>
SLUICE_DEVICE void store(const SumParams& p, int unit, int thread, const Float4 (&sums)[kUnits]) {
  const int tile = sluice::quotient(unit, p.units_per_tile), inside = unit - tile * p.units_per_tile;
  const int wave = sluice::quotient(inside, p.vectors_across), vector = inside - wave * p.vectors_across;
  const int down = sluice::quotient(tile, p.tiles_across), across = tile - down * p.tiles_across;
  const int row = down * p.tile_m + wave * 64 + thread / 32 * 16 + thread % 32 / 4;
  const int quad = thread % 4, column = across * p.tile_n + vector * 8;
  const long upper = static_cast<long>(row) * p.n + column, lower = upper + 8l * p.n;
  if constexpr (kStore == Store::nothing) {
    float all = 0;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) all += sums[u].x + sums[u].y + sums[u].z + sums[u].w;
    if (all == 1.2345e30f) static_cast<float*>(p.d)[0] = all;
  } else if constexpr (kStore == Store::floats) {
    float* d = static_cast<float*>(p.d);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      *reinterpret_cast<float2*>(d + upper + u * 8 + quad * 2) = {sums[u].x, sums[u].y};
      *reinterpret_cast<float2*>(d + lower + u * 8 + quad * 2) = {sums[u].z, sums[u].w};
    }
  } else if constexpr (kStore == Store::pairs) {
    auto* d = static_cast<unsigned short*>(p.d);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      *reinterpret_cast<u32*>(d + upper + u * 8 + quad * 2) = bf16_pair(sums[u].x, sums[u].y);
      *reinterpret_cast<u32*>(d + lower + u * 8 + quad * 2) = bf16_pair(sums[u].z, sums[u].w);
    }
  } else {
    static_assert(kUnits == 4, "quads need four units");
    auto* d = static_cast<unsigned short*>(p.d);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      u32 mine[4], row_of_eight[4];
#pragma unroll
      for (int u = 0; u < 4; ++u)
        mine[u] = half == 0 ? bf16_pair(sums[u].x, sums[u].y) : bf16_pair(sums[u].z, sums[u].w);
        // Thread `quad` collects unit `quad`. From thread quad ^ i it gets that thread's pair of this unit.
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int to = quad ^ i;
        const u32 sent = to == 0 ? mine[0] : to == 1 ? mine[1] : to == 2 ? mine[2] : mine[3];
        const u32 got = __shfl_xor_sync(~0u, sent, i);
#pragma unroll
        for (int place = 0; place < 4; ++place)
          if (place == to) row_of_eight[place] = got;
      }
      *reinterpret_cast<uint4*>(d + (half == 0 ? upper : lower) + quad * 8) =
          make_uint4(row_of_eight[0], row_of_eight[1], row_of_eight[2], row_of_eight[3]);
    }
  }
}

template <class Kernel, class... Arguments>
void launch_kernel(Kernel kernel, int ctas, int threads, int smem, const Launch& launch,
                   const Arguments&... arguments) {
  if (smem > 48 * 1024)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem), "shared memory");
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(ctas);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = smem;
  config.stream = launch.stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = launch.dependent ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "launch");
}

}  // namespace probe
