// SPDX-License-Identifier: Apache-2.0
// Step 7: warps with roles. One thread only loads; two warpgroups only multiply. They synchronise by two
// barriers per stage. `full` completes when the bytes have arrived, `empty` when every warp of both groups
// has read them.
//
// What it adds: there is no barrier of all threads in the loop. The loading thread runs ahead by up to the
// length of the ring. A slow group delays neither the loads nor the other group. A group keeps one WGMMA in
// flight: it issues the next before it waits for the last, and then releases the stage before. The tile is
// 128 x 256, because setmaxnreg moves registers from the loading warps to the multiplying ones. The first
// wait on `empty` must not block, because nothing has been read yet; it waits for the phase before the first.
// What it leaves out: the start and the end of a tile. A CTA loads nothing while it writes its tile, and the
// next CTA on the SM starts with an empty ring.
#include "ladder.h"

#include <sluice/device/ptx/generated/wgmma_n256.cuh>
#include <sluice/device/ptx/mbarrier.cuh>
#include <sluice/device/ptx/sync.cuh>
#include <sluice/device/ptx/tma.cuh>

namespace ladder {

namespace ptx = sluice::ptx;
using Product = ptx::Wgmma<sluice::DType::bf16, sluice::DType::bf16, 256>;
constexpr Launch kLaunch = kSteps[6];
constexpr int kDepth = kLaunch.tile_k, kStages = kLaunch.stages, kRow = kLaunch.row_bytes;
constexpr int kBytesA = kLaunch.tile_m * kRow, kStageBytes = kBytesA + kLaunch.tile_n * kRow;

struct Ring {
  unsigned base, full, empty;  // addresses in shared memory
  __device__ unsigned stage(int tile) const { return base + tile % kStages * kStageBytes; }
  __device__ unsigned full_at(int tile) const { return full + tile % kStages * 8; }
  __device__ unsigned empty_at(int tile) const { return empty + tile % kStages * 8; }
};

__device__ void load_role(const Params& p, const Ring& ring, int tiles) {
  for (int tile = 0; tile < tiles; ++tile) {
    ptx::mbarrier_wait_parity(ring.empty_at(tile), tile / kStages % 2 ^ 1);
    ptx::mbarrier_arrive_expect_tx(ring.full_at(tile), kStageBytes);
    ptx::tma_load(ring.stage(tile), p.map_a, {tile * kDepth, int(blockIdx.y) * kLaunch.tile_m, 0},
                  ring.full_at(tile));
    ptx::tma_load(ring.stage(tile) + kBytesA, p.map_b, {tile * kDepth, int(blockIdx.x) * kLaunch.tile_n, 0},
                  ring.full_at(tile));
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

__device__ void math_role(const Params& p, const Ring& ring, int tiles, int group) {
  float sums[128];  // not set to zero, which would make WGMMA wait; the first one overwrites them
  for (int tile = 0; tile < tiles; ++tile) {
    ptx::mbarrier_wait_parity(ring.full_at(tile), tile / kStages % 2);
    multiply(sums, ring.stage(tile) + group * 64 * kRow, ring.stage(tile) + kBytesA, tile == 0);
    ptx::wgmma_wait_group<1>();  // all but the newest WGMMAs are done: the previous tile is free
    if (tile > 0 && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(ring.empty_at(tile - 1));
  }
  ptx::wgmma_wait_group<0>();
  ptx::pin_registers(sums);
  const int lane = threadIdx.x % 32,
            row = blockIdx.y * kLaunch.tile_m + group * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
  float* out = p.d + size_t(row) * p.n + blockIdx.x * kLaunch.tile_n + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    *reinterpret_cast<float2*>(out + j * 8) = {sums[4 * j], sums[4 * j + 1]};
    *reinterpret_cast<float2*>(out + size_t(8) * p.n + j * 8) = {sums[4 * j + 2], sums[4 * j + 3]};
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
    if (threadIdx.x == 0) load_role(p, ring, p.k / kDepth);
  } else {
    ptx::setmaxnreg_inc<232>();
    math_role(p, ring, p.k / kDepth, group - 1);
  }
}
