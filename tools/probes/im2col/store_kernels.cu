// SPDX-License-Identifier: Apache-2.0
#include "store_engine.cuh"
#include "stores.h"

namespace probe {
namespace {

constexpr int kThreads = 128;
constexpr int kBoxBytes = 64 * 128;
constexpr int kDepth = 4;  // boxes in flight

struct StoreParams {
  CUtensorMap map;
  int c;
  Pixel at;
  int bytes;
  const unsigned char* rows;
};

template <int kSpatial, bool kAdd>
__global__ void store(const __grid_constant__ StoreParams p) {
  extern __shared__ unsigned char raw[];
  unsigned char* box = raw + (1024 - shared_address(raw) % 1024) % 1024;
  for (int i = threadIdx.x; i < p.bytes; i += kThreads) box[i ^ ((i >> 7 & 7) << 4)] = p.rows[i];
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  store_im2col<kSpatial, kAdd>(p.map, p.c, p.at, shared_address(box));
  ptx::bulk_commit_group();
  ptx::bulk_wait_group<0>();
}

struct StoreRateParams {
  CUtensorMap map;
  int positions[2];
  int boxes_each;
  long long* clocks;
  long long* elapsed;
};

template <StoreKind kKind>
__global__ void rate(const __grid_constant__ StoreRateParams p) {
  extern __shared__ unsigned char raw[];
  __shared__ Pixel starts[512];
  unsigned char* box = raw + (1024 - shared_address(raw) % 1024) % 1024;
  for (int i = threadIdx.x; i < kDepth * kBoxBytes; i += kThreads) box[i] = 0;
  for (int i = threadIdx.x; i < p.boxes_each; i += kThreads) {
    const int pixel = (blockIdx.x + i * gridDim.x) * 64;
    starts[i] = kKind == StoreKind::tiled
                    ? Pixel{pixel, 0, 0, 0}
                    : Pixel{pixel % p.positions[0], pixel / p.positions[0] % p.positions[1], 0,
                            pixel / p.positions[0] / p.positions[1]};
  }
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  asm volatile("" ::: "memory");
  const long long clock_begin = clock64();
  const u64 begin = nanoseconds();
  for (int i = 0; i < p.boxes_each; ++i) {
    const u32 source = shared_address(box) + i % kDepth * kBoxBytes;
    ptx::bulk_wait_group_read<kDepth - 1>();
    if constexpr (kKind == StoreKind::tiled)
      store_tiled(p.map, 0, starts[i].w, source);
    else
      store_im2col<2, kKind == StoreKind::im2col_add>(p.map, 0, starts[i], source);
    ptx::bulk_commit_group();
  }
  ptx::bulk_wait_group<0>();
  p.clocks[blockIdx.x] = clock64() - clock_begin;
  p.elapsed[blockIdx.x] = static_cast<long long>(nanoseconds() - begin);
}

}  // namespace

void store_box(const CUtensorMap& map, const Geometry& g, const Start& start, bool add,
               const unsigned char* device_rows) {
  StoreParams p{};
  p.map = map, p.c = start.at[0], p.bytes = g.pixels * 128, p.rows = device_rows;
  p.at = {start.at[1], g.spatial > 1 ? start.at[2] : 0, g.spatial > 2 ? start.at[3] : 0,
          start.at[g.spatial + 1]};
  const int smem = p.bytes + 1024;
  const auto launch = [&](auto kernel) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem), "shared memory");
    kernel<<<1, kThreads, smem>>>(p);
  };
  if (g.spatial == 1) add ? launch(store<1, true>) : launch(store<1, false>);
  if (g.spatial == 2) add ? launch(store<2, true>) : launch(store<2, false>);
  if (g.spatial == 3) add ? launch(store<3, true>) : launch(store<3, false>);
  check(cudaGetLastError(), "launch of a store");
  check(cudaDeviceSynchronize(), "a store");
}

StoreRate store_rate(const CUtensorMap& map, StoreKind kind, const int (&positions)[2], int boxes_each) {
  int sms = 0;
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "SMs");
  static long long* const clocks = device_array<long long>(1024);
  static long long* const elapsed = device_array<long long>(1024);
  StoreRateParams p{};
  p.map = map, p.boxes_each = boxes_each, p.clocks = clocks, p.elapsed = elapsed;
  p.positions[0] = positions[0], p.positions[1] = positions[1];
  const int smem = kDepth * kBoxBytes + 1024;
  StoreRate best{1e9, 0};
  for (int i = 0; i < 4; ++i) {
    if (kind == StoreKind::tiled) rate<StoreKind::tiled><<<sms, kThreads, smem>>>(p);
    if (kind == StoreKind::im2col) rate<StoreKind::im2col><<<sms, kThreads, smem>>>(p);
    if (kind == StoreKind::im2col_add) rate<StoreKind::im2col_add><<<sms, kThreads, smem>>>(p);
    check(cudaGetLastError(), "launch of store rates");
    check(cudaDeviceSynchronize(), "store rates");
    const auto c = copy_to_host(clocks, sms), e = copy_to_host(elapsed, sms);
    double sum_clocks = 0, sum_ns = 0;
    for (int s = 0; s < sms; ++s) sum_clocks += c[s], sum_ns += e[s];
    const double rows = 64.0 * boxes_each * sms;
    if (sum_clocks / rows < best.clocks_per_row) best = {sum_clocks / rows, rows * 128 / sum_ns};
  }
  return best;
}

}  // namespace probe
