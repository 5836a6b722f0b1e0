// SPDX-License-Identifier: Apache-2.0
// Step 8: persistent CTAs. One CTA per SM runs as long as the kernel and computes one tile after another. The
// ring does not end with a tile: the loading thread continues with the next tile while the groups still write
// the last one.
//
// What it adds: the start and end of a tile cost only the writes. Both roles count the k-tiles so far
// (`count`). This number determines the next stage and the parity to wait for, so they need not communicate.
// The order of the tiles matters. They are taken in bands of eight tile rows, so that CTAs which run at the
// same time share rows of A and of B, and L2 serves most loads. sluice/kernels/gemm.cuh continues from here.
// It has ping-pong, where one group multiplies while the other writes; clusters, whose CTAs load for each
// other; and stores by TMA. It also has epilogues, split-K, sizes that are not multiples of a tile, and
// dependent launch.
#include "ladder.h"

#include <sluice/device/ptx/generated/wgmma_n256.cuh>
#include <sluice/device/ptx/mbarrier.cuh>
#include <sluice/device/ptx/sync.cuh>
#include <sluice/device/ptx/tma.cuh>

namespace ladder {

namespace ptx = sluice::ptx;
using Product = ptx::Wgmma<sluice::DType::bf16, sluice::DType::bf16, 256>;
constexpr Launch kLaunch = kSteps[7];
constexpr int kDepth = kLaunch.tile_k, kStages = kLaunch.stages, kRow = kLaunch.row_bytes;
constexpr int kBytesA = kLaunch.tile_m * kRow, kStageBytes = kBytesA + kLaunch.tile_n * kRow;

struct Ring {
  unsigned base, full, empty;  // addresses in shared memory
  __device__ unsigned stage(int tile) const { return base + tile % kStages * kStageBytes; }
  __device__ unsigned full_at(int tile) const { return full + tile % kStages * 8; }
  __device__ unsigned empty_at(int tile) const { return empty + tile % kStages * 8; }
};

/// Tile `index` of D: first down the rows of a band, then on to the next column.
struct Tile {
  int row, column;
};
__device__ Tile tile_at(const Params& p, int index) {
  constexpr int kBand = 8;
  const int rows = p.m / kLaunch.tile_m, columns = p.n / kLaunch.tile_n;
  const int band = index / (kBand * columns), inside = index % (kBand * columns);
  const int height = min(kBand, rows - band * kBand);
  return {(band * kBand + inside % height) * kLaunch.tile_m, inside / height * kLaunch.tile_n};
}
__device__ int tiles_of(const Params& p) {
  return p.m / kLaunch.tile_m * (p.n / kLaunch.tile_n);
}

__device__ void load_role(const Params& p, const Ring& ring) {
  int count = 0;
  for (int index = blockIdx.x; index < tiles_of(p); index += gridDim.x) {
    const Tile tile = tile_at(p, index);
    for (int k = 0; k < p.k; k += kDepth, ++count) {
      ptx::mbarrier_wait_parity(ring.empty_at(count), count / kStages % 2 ^ 1);
      ptx::mbarrier_arrive_expect_tx(ring.full_at(count), kStageBytes);
      ptx::tma_load(ring.stage(count), p.map_a, {k, tile.row, 0}, ring.full_at(count));
      ptx::tma_load(ring.stage(count) + kBytesA, p.map_b, {k, tile.column, 0}, ring.full_at(count));
    }
  }
}

__device__ void multiply(float (&sums)[128], unsigned a, unsigned b, bool fresh) {
  const sluice::u64 left = ptx::smem_descriptor(a, 0, 8 * kRow), right = ptx::smem_descriptor(b, 0, 8 * kRow);
  ptx::pin_registers(sums);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step)
    Product::mma<0, 0>(sums, left + step * (32 >> 4), right + step * (32 >> 4), !fresh || step != 0);
  ptx::wgmma_commit_group();
  ptx::pin_registers(sums);
}

__device__ void math_role(const Params& p, const Ring& ring, int group) {
  const int lane = threadIdx.x % 32, own_row = group * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
  int count = 0;
  for (int index = blockIdx.x; index < tiles_of(p); index += gridDim.x) {
    float sums[128];
    for (int k = 0; k < p.k; k += kDepth, ++count) {
      ptx::mbarrier_wait_parity(ring.full_at(count), count / kStages % 2);
      multiply(sums, ring.stage(count) + group * 64 * kRow, ring.stage(count) + kBytesA, k == 0);
      ptx::wgmma_wait_group<1>();
      if (k > 0 && lane == 0) ptx::mbarrier_arrive(ring.empty_at(count - 1));
    }
    ptx::wgmma_wait_group<0>();
    ptx::pin_registers(sums);
    if (lane == 0)
      // Before the writes, so that the next tile's loads can continue.
      ptx::mbarrier_arrive(ring.empty_at(count - 1));
    const Tile tile = tile_at(p, index);
    float* out = p.d + size_t(tile.row + own_row) * p.n + tile.column + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 32; ++j) {
      *reinterpret_cast<float2*>(out + j * 8) = {sums[4 * j], sums[4 * j + 1]};
      *reinterpret_cast<float2*>(out + size_t(8) * p.n + j * 8) = {sums[4 * j + 2], sums[4 * j + 3]};
    }
  }
}

}  // namespace ladder

extern "C" __global__ void __launch_bounds__(384, 1) sluice_entry(const __grid_constant__ ladder::Params p) {
  using namespace ladder;
  extern __shared__ char memory[];
  __shared__ unsigned long long full[kStages], empty[kStages];
  const Ring ring{(ptx::shared_address(memory) + 1023) & ~1023u, ptx::shared_address(full),
                  ptx::shared_address(empty)};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(ring.full_at(stage), 1);
      ptx::mbarrier_init(ring.empty_at(stage), 8);  // one arrival per multiplying warp
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  const int group = threadIdx.x / 128;
  if (group == 0) {
    ptx::setmaxnreg_dec<40>();
    if (threadIdx.x == 0) load_role(p, ring);
  } else {
    ptx::setmaxnreg_inc<232>();
    math_role(p, ring, group - 1);
  }
}
