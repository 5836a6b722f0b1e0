// SPDX-License-Identifier: Apache-2.0
// Kernels that load one box, or one per CTA of a cluster, and copy shared memory to global memory.
#include "boxes.h"

#include "engine.cuh"

namespace probe {
namespace {

constexpr int kMostCtas = 4;
constexpr int kThreads = 128;
constexpr int kAlignment = 1024;  // the swizzle pattern of 128 bytes repeats after this many bytes

struct BoxParams {
  CUtensorMap map;
  int c[kMostCtas];
  Pixel at[kMostCtas];
  Offsets offsets[kMostCtas];
  int bytes;  // bytes of one box
  unsigned char* out;
  int* arrived;
};

/// kSpatial 0: loads a tiled box; at.w is its first row.
template <int kSpatial, int kCtas>
__global__ void load_boxes(const __grid_constant__ BoxParams p) {
  extern __shared__ unsigned char raw[];
  __shared__ alignas(8) u64 barrier_memory;
  unsigned char* box = raw + (kAlignment - shared_address(raw) % kAlignment) % kAlignment;
  const u32 barrier = shared_address(&barrier_memory);
  const int rank = blockIdx.x, total = p.bytes * kCtas;
  for (int i = threadIdx.x; i < total; i += kThreads) box[i] = 0xee;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::fence_mbarrier_init();
  }
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) ptx::mbarrier_arrive_expect_tx(barrier, total);
  if constexpr (kCtas > 1) {
    __syncwarp();
    ptx::cluster_arrive_release();
    ptx::cluster_wait_acquire();
  }
  if (threadIdx.x == 0) {
    const u32 to = shared_address(box) + rank * p.bytes;
    if constexpr (kSpatial == 0)
      load_tiled(to, p.map, p.c[0], p.at[0].w, barrier);
    else if constexpr (kCtas == 1)
      load_im2col<kSpatial>(to, p.map, p.c[0], p.at[0], p.offsets[0], barrier);
    else
      load_im2col_multicast<kSpatial>(to, p.map, p.c[rank], p.at[rank], p.offsets[rank], barrier,
                                      (1 << kCtas) - 1);
  }
  const bool came = wait_bounded(barrier, 0);
  if (!came) *p.arrived = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < total; i += kThreads) p.out[rank * total + i] = box[i];
  if constexpr (kCtas > 1) {
    __syncwarp();
    ptx::cluster_arrive_release();
    ptx::cluster_wait_acquire();
  }
}

template <int kSpatial, int kCtas>
void launch(const BoxParams& p) {
  const auto kernel = load_boxes<kSpatial, kCtas>;
  const int smem = p.bytes * kCtas + kAlignment;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem), "shared memory");
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kCtas);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = smem;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {kCtas, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, p), "launch of a box");
}

template <int kCtas>
void launch(int spatial, const BoxParams& p) {
  if (spatial == 1) launch<1, kCtas>(p);
  if (spatial == 2) launch<2, kCtas>(p);
  if (spatial == 3) launch<3, kCtas>(p);
}

void set_start(BoxParams& p, int index, const Geometry& g, const Start& s) {
  p.c[index] = s.at[0];
  p.at[index] = {s.at[1], g.spatial > 1 ? s.at[2] : 0, g.spatial > 2 ? s.at[3] : 0, s.at[g.spatial + 1]};
  p.offsets[index] = {static_cast<u16>(s.offsets[0]), static_cast<u16>(s.offsets[1]),
                      static_cast<u16>(s.offsets[2])};
}

int box_bytes(const Geometry& g) {
  return g.channels * g.pixels * g.element_bytes;
}

}  // namespace

BoxLoader::BoxLoader(int most_bytes)
    : out_(device_array<unsigned char>(most_bytes)), arrived_(device_array<int>(1)) {}

std::vector<unsigned char> BoxLoader::finish(size_t bytes, bool* arrived) {
  check(cudaDeviceSynchronize(), "load of a box");
  *arrived = copy_to_host(arrived_, 1)[0] == 1;
  return copy_to_host(out_, bytes);
}

std::vector<unsigned char> BoxLoader::im2col(const CUtensorMap& map, const Geometry& g, const Start& start,
                                             bool* arrived) {
  copy_to_device(arrived_, std::vector<int>{1});
  BoxParams p{};
  p.map = map, p.bytes = box_bytes(g), p.out = out_, p.arrived = arrived_;
  set_start(p, 0, g, start);
  launch<1>(g.spatial, p);
  return finish(p.bytes, arrived);
}

std::vector<unsigned char> BoxLoader::tiled(const CUtensorMap& map, const Matrix& m, int column, int row,
                                            bool* arrived) {
  copy_to_device(arrived_, std::vector<int>{1});
  BoxParams p{};
  p.map = map, p.bytes = m.box_rows * m.box_columns * m.element_bytes, p.out = out_, p.arrived = arrived_;
  p.c[0] = column, p.at[0].w = row;
  launch<0, 1>(p);
  return finish(p.bytes, arrived);
}

std::vector<unsigned char> BoxLoader::multicast(const CUtensorMap& map, const Geometry& g,
                                                const std::vector<Start>& starts, bool* arrived) {
  copy_to_device(arrived_, std::vector<int>{1});
  BoxParams p{};
  p.map = map, p.bytes = box_bytes(g), p.out = out_, p.arrived = arrived_;
  for (size_t i = 0; i < starts.size(); ++i) set_start(p, static_cast<int>(i), g, starts[i]);
  if (starts.size() == 2)
    launch<2>(g.spatial, p);
  else
    launch<4>(g.spatial, p);
  return finish(p.bytes * starts.size() * starts.size(), arrived);
}

}  // namespace probe
