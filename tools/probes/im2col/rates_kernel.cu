// SPDX-License-Identifier: Apache-2.0
// Roles: thread 0 loads, thread 32 releases.
// Barriers: full[stage] has 1 arrival and the stage's bytes; empty[stage] has one arrival per CTA of the
// cluster.
#include "rates.h"

#include "engine.cuh"

namespace probe {
namespace {

constexpr int kThreads = 64;
constexpr int kRowBytes = 128;
constexpr int kAlignment = 1024;

struct RateBarriers {
  alignas(8) u64 full[kMostStages], empty[kMostStages];
};

template <int kSpatial>
SLUICE_DEVICE Pixel start_of_pixel(const RateParams& p, int pixel) {
  if constexpr (kSpatial == 0) return {pixel, 0, 0, 0};
  const int w = pixel % p.extents[0];
  pixel /= p.extents[0];
  const int h = pixel % p.extents[1];
  pixel /= p.extents[1];
  const int d = pixel % p.extents[2];
  return {p.lower[0] + w * p.steps[0], p.lower[1] + h * p.steps[1], p.lower[2] + d * p.steps[2],
          p.image_base + pixel / p.extents[2]};
}

template <int kSpatial, int kCtas>
SLUICE_DEVICE void issue(u32 to, const RateParams& p, int c, const Pixel& at, const Offsets& o, u32 barrier) {
  constexpr u16 kMask = (1 << kCtas) - 1;
  if constexpr (kSpatial == 0 && kCtas == 1)
    load_tiled(to, p.map, c, at.w, barrier);
  else if constexpr (kSpatial == 0)
    load_tiled_multicast(to, p.map, c, at.w, barrier, kMask);
  else if constexpr (kCtas == 1)
    load_im2col<kSpatial>(to, p.map, c, at, o, barrier);
  else
    load_im2col_multicast<kSpatial>(to, p.map, c, at, o, barrier, kMask);
}

/// This CTA's slice of a stage consists of kBoxes boxes of kRows rows each.
template <int kSpatial, int kCtas, int kBoxes, int kRows>
__global__ void __launch_bounds__(kThreads) rate(const __grid_constant__ RateParams p) {
  constexpr int kStageRows = kBoxes * kRows * kCtas;
  extern __shared__ unsigned char raw[];
  __shared__ RateBarriers barriers;
  __shared__ Pixel starts[kMostEntries];
  __shared__ int failed;
  const u32 ring = (shared_address(raw) + kAlignment - 1) / kAlignment * kAlignment;
  const int rank = blockIdx.x % kCtas, cluster = blockIdx.x / kCtas, clusters = gridDim.x / kCtas;
  for (int i = threadIdx.x; i < p.tiles_each * kBoxes; i += kThreads) {
    const int tile = cluster + i / kBoxes * clusters;
    const long long pixel = static_cast<long long>(tile) * kStageRows + (rank * kBoxes + i % kBoxes) * kRows;
    starts[i] = start_of_pixel<kSpatial>(p, static_cast<int>(pixel % p.pixels));
  }
  if (threadIdx.x == 0) {
    failed = 0;
    for (int s = 0; s < p.stages; ++s) {
      ptx::mbarrier_init(shared_address(&barriers.full[s]), 1);
      ptx::mbarrier_init(shared_address(&barriers.empty[s]), kCtas);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if constexpr (kCtas > 1) {
    __syncwarp();
    ptx::cluster_arrive_release();
    ptx::cluster_wait_acquire();
  }
  if (threadIdx.x == 0) {
    const long long clock_begin = clock64();
    const u64 begin = nanoseconds();
    int stage = 0, pass = 0, tap = 0, block = 0, tile = 0;
    for (int load = 0; load < p.loads; ++load) {
      const u32 full = shared_address(&barriers.full[stage]);
      if (pass > 0 && !wait_bounded(shared_address(&barriers.empty[stage]), (pass - 1) & 1)) {
        failed = 1;
        break;
      }
      ptx::mbarrier_arrive_expect_tx(full, kStageRows * kRowBytes);
      const u32 to = ring + stage * kStageRows * kRowBytes + rank * kBoxes * kRows * kRowBytes;
#pragma unroll
      for (int b = 0; b < kBoxes; ++b)
        issue<kSpatial, kCtas>(to + b * kRows * kRowBytes, p, block * 64, starts[tile * kBoxes + b],
                               p.offsets[tap], full);
      if (++stage == p.stages) stage = 0, ++pass;
      if (++block == p.blocks) {
        block = 0;
        if (++tap == p.taps) {
          tap = 0;
          if (++tile == p.tiles_each) tile = 0;
        }
      }
    }
    p.clocks[blockIdx.x] = -clock_begin;
    p.elapsed[blockIdx.x] = -static_cast<long long>(begin);
  }
  if (threadIdx.x == 32) {
    int stage = 0, pass = 0;
    for (int load = 0; load < p.loads; ++load) {
      if (!wait_bounded(shared_address(&barriers.full[stage]), pass & 1)) {
        failed = 1;
        break;
      }
      const u32 empty = shared_address(&barriers.empty[stage]);
      if constexpr (kCtas == 1)
        ptx::mbarrier_arrive(empty);
      else
        for (int cta = 0; cta < kCtas; ++cta) ptx::mbarrier_arrive_cluster(empty, cta);
      if (++stage == p.stages) stage = 0, ++pass;
    }
  }
  const long long clock_end = clock64();
  const u64 end = nanoseconds();
  __syncthreads();
  if (threadIdx.x == 32) {
    p.clocks[blockIdx.x] += clock_end;
    p.elapsed[blockIdx.x] += static_cast<long long>(end);
    if (failed) *p.failed = 1;
  }
  if constexpr (kCtas > 1) {
    __syncwarp();
    ptx::cluster_arrive_release();
    ptx::cluster_wait_acquire();
  }
}

template <int kSpatial, int kCtas, int kBoxes, int kRows>
float launch(const RateParams& p, int clusters, cudaStream_t stream) {
  const auto kernel = rate<kSpatial, kCtas, kBoxes, kRows>;
  const int smem = p.stages * kBoxes * kRows * kCtas * kRowBytes + kAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem), "shared memory");
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(clusters * kCtas);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = smem;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {kCtas, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  static cudaEvent_t events[2] = {};
  if (events[0] == nullptr)
    for (cudaEvent_t& event : events) check(cudaEventCreate(&event), "event");
  check(cudaEventRecord(events[0], stream), "event");
  check(cudaLaunchKernelEx(&config, kernel, p), "launch of a rate");
  check(cudaEventRecord(events[1], stream), "event");
  check(cudaStreamSynchronize(stream), "a rate");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, events[0], events[1]), "event");
  return ms;
}

template <int kSpatial, int kCtas>
float launch_rows(const RateShape& shape, const RateParams& p, int clusters, cudaStream_t stream) {
  // Stages have 128 rows, or 256 if one box or the boxes of two CTAs have that many.
  const auto is = [&](int rows, int boxes) { return shape.box_rows == rows && shape.boxes() == boxes; };
  if constexpr (kCtas == 1) {
    if (is(32, 4)) return launch<kSpatial, kCtas, 4, 32>(p, clusters, stream);
    if (is(64, 2)) return launch<kSpatial, kCtas, 2, 64>(p, clusters, stream);
    if (is(256, 1)) return launch<kSpatial, kCtas, 1, 256>(p, clusters, stream);
  } else {
    if (is(32, 2)) return launch<kSpatial, kCtas, 2, 32>(p, clusters, stream);
    if (is(64, 1)) return launch<kSpatial, kCtas, 1, 64>(p, clusters, stream);
  }
  if (is(128, 1)) return launch<kSpatial, kCtas, 1, 128>(p, clusters, stream);
  return -1;
}

}  // namespace

float run_rate(const RateShape& shape, const RateParams& params, int clusters, cudaStream_t stream) {
  const int key = shape.spatial * 10 + shape.ctas;
  switch (key) {
    case 1: return launch_rows<0, 1>(shape, params, clusters, stream);
    case 2: return launch_rows<0, 2>(shape, params, clusters, stream);
    case 11: return launch_rows<1, 1>(shape, params, clusters, stream);
    case 12: return launch_rows<1, 2>(shape, params, clusters, stream);
    case 21: return launch_rows<2, 1>(shape, params, clusters, stream);
    case 22: return launch_rows<2, 2>(shape, params, clusters, stream);
    case 31: return launch_rows<3, 1>(shape, params, clusters, stream);
    case 32: return launch_rows<3, 2>(shape, params, clusters, stream);
    default: return -1;
  }
}

}  // namespace probe
