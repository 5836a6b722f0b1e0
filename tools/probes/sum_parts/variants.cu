// SPDX-License-Identifier: Apache-2.0
#include "common.cuh"

namespace probe {
namespace {

constexpr int kMostGroups = 4;
constexpr int kMostParts = 32;

/// Number of slices that a thread of by_groups loads at once: few enough to stay within 128 registers.
template <int kUnits>
constexpr int kGroupLoads = kUnits == 4 ? 4 : 8;

/// The present kernel, with kUnits units of 8 columns per CTA (1 in the library). Each warpgroup adds up the
/// slices of one group, several at once.
template <int kUnits, Store kStore>
__global__ void __launch_bounds__(kMostGroups* kUnitThreads) by_groups(SumParams p) {
  constexpr int kAtOnce = kGroupLoads<kUnits>;
  __shared__ Float4 others[kMostGroups - 1][kUnits][kUnitThreads];
  ptx::wait_for_prerequisites();
  const int group = threadIdx.x / kUnitThreads, thread = threadIdx.x % kUnitThreads;
  const int unit = blockIdx.x * kUnits;
  const float* at = place(p, unit, thread);
  const int end = first_part(p, group + 1);
  Float4 sums[kUnits] = {};
  const int begin = first_part(p, group);
  for (int part = begin; part < end; part += kAtOnce) {
    Float4 loaded[kAtOnce][kUnits];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (part + i < end)
          loaded[i][u] = load(at + static_cast<long>(p.tile_floats) * (part + i) + u * kUnitFloats);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        if (part + i < end) sums[u] = part + i == begin ? loaded[i][u] : sums[u] + loaded[i][u];
  }
  if (group > 0)
#pragma unroll
    for (int u = 0; u < kUnits; ++u) others[group - 1][u][thread] = sums[u];
  __syncthreads();
  if (group > 0) return;
  for (int other = 1; other < 1 << p.log_groups; ++other)
#pragma unroll
    for (int u = 0; u < kUnits; ++u) sums[u] = sums[u] + others[other - 1][u][thread];
  store<kStore, kUnits>(p, unit, thread, sums);
}

/// A thread adds up all slices of its kUnits units, kAtOnce slices at once, without an exchange. The grid may
/// be smaller than the work.
template <int kAtOnce, int kUnits, int kThreads, Store kStore>
__global__ void __launch_bounds__(kThreads) alone(SumParams p) {
  ptx::wait_for_prerequisites();
  constexpr int kSets = kThreads / kUnitThreads;
  const int thread = threadIdx.x % kUnitThreads;
  for (int unit = (blockIdx.x * kSets + threadIdx.x / kUnitThreads) * kUnits; unit < p.units;
       unit += gridDim.x * kSets * kUnits) {
    const float* at = place(p, unit, thread);
    OrderedSums<kUnits> sums(p);
    for (int part = 0; part < p.parts; part += kAtOnce) {
      Float4 loaded[kAtOnce][kUnits];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
        for (int u = 0; u < kUnits; ++u)
          if (part + i < p.parts)
            loaded[i][u] = load(at + static_cast<long>(p.tile_floats) * (part + i) + u * kUnitFloats);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (part + i < p.parts) sums.add(p, part + i, loaded[i]);
    }
    sums.end_group();
    store<kStore, kUnits>(p, unit, thread, sums.total);
  }
}

/// TMA copies kUnits units of every slice to shared memory, all at once; then threads add them.
template <int kUnits, Store kStore>
__global__ void __launch_bounds__(kUnits* kUnitThreads) by_bulk_copies(SumParams p) {
  constexpr int kBytes = kUnits * kUnitFloats * 4, kEach = 8;
  extern __shared__ __align__(128) float parts[];
  __shared__ alignas(8) u64 barriers[kMostParts / kEach];
  const auto address = [](const void* at) { return static_cast<u32>(__cvta_generic_to_shared(at)); };
  if (threadIdx.x == 0) {
    for (int b = 0; b * kEach < p.parts; ++b) {
      ptx::mbarrier_init(address(&barriers[b]), 1);
      ptx::fence_mbarrier_init();
      ptx::mbarrier_arrive_expect_tx(address(&barriers[b]), sluice::min(kEach, p.parts - b * kEach) * kBytes);
    }
  }
  __syncthreads();
  ptx::wait_for_prerequisites();
  const int unit = blockIdx.x * kUnits;
  if (threadIdx.x < p.parts) {
    const float* from = place(p, unit, 0) + static_cast<long>(p.tile_floats) * threadIdx.x;
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            address(parts) + threadIdx.x * kBytes),
        "l"(from), "r"(kBytes), "r"(address(&barriers[threadIdx.x / kEach]))
        : "memory");
  }
  OrderedSums<1> sums(p);
  for (int part = 0; part < p.parts; ++part) {
    if (part % kEach == 0) ptx::mbarrier_wait_parity(address(&barriers[part / kEach]), 0);
    const float4 v = *reinterpret_cast<const float4*>(parts + part * kUnits * kUnitFloats + threadIdx.x * 4);
    const Float4 values[1] = {{v.x, v.y, v.z, v.w}};
    sums.add(p, part, values);
  }
  sums.end_group();
  store<kStore, 1>(p, unit + threadIdx.x / kUnitThreads, threadIdx.x % kUnitThreads, sums.total);
}

template <int kUnits, Store kStore>
bool launch_groups(const SumParams& p, const Launch& launch) {
  launch_kernel(by_groups<kUnits, kStore>, p.units / kUnits, kUnitThreads << p.log_groups, 0, launch, p);
  return true;
}

/// kMostCtas: upper limit of the grid; 0: none.
template <int kAtOnce, int kUnits, int kThreads, Store kStore, int kMostCtas>
bool launch_alone(const SumParams& p, const Launch& launch) {
  const int needed = sluice::ceil_div(p.units, kUnits * kThreads / kUnitThreads);
  if (kMostCtas > 0 && needed <= kMostCtas) return false;  // equals the variant without a limit
  launch_kernel(alone<kAtOnce, kUnits, kThreads, kStore>, kMostCtas > 0 ? kMostCtas : needed, kThreads, 0,
                launch, p);
  return true;
}

template <int kUnits, Store kStore>
bool launch_bulk(const SumParams& p, const Launch& launch) {
  const int smem = p.parts * kUnits * kUnitFloats * 4;
  if (p.parts > kMostParts || smem > 200 * 1024) return false;
  launch_kernel(by_bulk_copies<kUnits, kStore>, p.units / kUnits, kUnits * kUnitThreads, smem, launch, p);
  return true;
}

__global__ void __launch_bounds__(512) write_slots(float* slots, long count) {
  ptx::launch_dependents();
  for (long i = blockIdx.x * 512l + threadIdx.x; i < count / 4; i += gridDim.x * 512l)
    ptx::store_global(slots + i * 4, {slot_value(i * 4), slot_value(i * 4 + 1), slot_value(i * 4 + 2),
                                      slot_value(i * 4 + 3)});
}

__global__ void wait_only() {
  ptx::wait_for_prerequisites();
}

template <int kUnits, Store kStore>
Variant groups(const char* name) {
  return {name, kStore, launch_groups<kUnits, kStore>, 16 * kGroupLoads<kUnits> * kUnits};
}
template <int kAtOnce, int kUnits, int kThreads, Store kStore, int kMostCtas = 0>
Variant threads(const char* name) {
  return {name, kStore, launch_alone<kAtOnce, kUnits, kThreads, kStore, kMostCtas>, 16 * kAtOnce * kUnits};
}

}  // namespace

std::vector<Variant> variants() {
  constexpr Store kPairs = Store::pairs, kQuads = Store::quads, kFloats = Store::floats;
  return {
      groups<1, kPairs>("today"),
      groups<1, kFloats>("today, fp32 D"),
      groups<1, Store::nothing>("today, no D"),
      groups<2, kPairs>("groups, 2 units"),
      groups<4, kPairs>("groups, 4 units"),
      groups<4, kQuads>("groups, 4 units, quads"),
      threads<2, 1, 128, kPairs>("alone 2x1, 128 threads"),
      threads<4, 1, 128, kPairs>("alone 4x1, 128 threads"),
      threads<8, 1, 128, kPairs>("alone 8x1, 128 threads"),
      threads<16, 1, 128, kPairs>("alone 16x1, 128 threads"),
      threads<32, 1, 128, kPairs>("alone 32x1, 128 threads"),
      threads<8, 1, 256, kPairs>("alone 8x1, 256 threads"),
      threads<8, 1, 512, kPairs>("alone 8x1, 512 threads"),
      threads<2, 2, 128, kPairs>("alone 2x2, 128 threads"),
      threads<4, 2, 128, kPairs>("alone 4x2, 128 threads"),
      threads<8, 2, 128, kPairs>("alone 8x2, 128 threads"),
      threads<16, 2, 128, kPairs>("alone 16x2, 128 threads"),
      threads<2, 4, 128, kPairs>("alone 2x4, 128 threads"),
      threads<4, 4, 128, kPairs>("alone 4x4, 128 threads"),
      threads<2, 4, 128, kQuads>("alone 2x4, 128 threads, quads"),
      threads<4, 4, 128, kQuads>("alone 4x4, 128 threads, quads"),
      threads<8, 4, 128, kQuads>("alone 8x4, 128 threads, quads"),
      threads<8, 2, 128, Store::nothing>("alone 8x2, 128 threads, no D"),
      threads<8, 2, 128, kFloats>("alone 8x2, 128 threads, fp32 D"),
      threads<8, 1, 128, kPairs, 132>("alone 8x1, 128 threads, 132 CTAs"),
      threads<8, 1, 128, kPairs, 528>("alone 8x1, 128 threads, 528 CTAs"),
      threads<8, 2, 128, kPairs, 264>("alone 8x2, 128 threads, 264 CTAs"),
      threads<8, 1, 512, kPairs, 132>("alone 8x1, 512 threads, 132 CTAs"),
      {"bulk copies, 1 unit", kPairs, launch_bulk<1, kPairs>, 0},
      {"bulk copies, 2 units", kPairs, launch_bulk<2, kPairs>, 0},
      {"bulk copies, 4 units", kPairs, launch_bulk<4, kPairs>, 0},
      {"bulk copies, 2 units, fp32 D", kFloats, launch_bulk<2, kFloats>, 0},
  };
}

void launch_producer(float* slots, long count, const Launch& launch) {
  launch_kernel(write_slots, 132, 512, 226 * 1024, launch, slots, count);
}

void launch_empty(int ctas, const Launch& launch) {
  launch_kernel(wait_only, ctas, kUnitThreads, 0, launch);
}

}  // namespace probe
