// SPDX-License-Identifier: Apache-2.0
// Step 6: tensor cores, used by warpgroups. WGMMA multiplies 64 x 16 elements of A by 16 x 128 of B, both
// read directly from shared memory, for four warps together. It runs asynchronously: issue, commit, wait.
//
// What it adds: Hopper's full rate. No operand passes through a register, so ldmatrix and its addresses are
// not needed. A descriptor names a tile: its address, and the distance from 8 rows to the next 8. WGMMA
// supports the swizzle of step 5. Each of two warpgroups computes 64 of the CTA's 128 rows. The fence and the
// pins tell the compiler that WGMMA writes the accumulators asynchronously. What it leaves out: the loop
// waits for each WGMMA before it releases a stage. The tensor cores idle during the barrier and until the
// next WGMMA is issued.
#include "ladder.h"

#include <sluice/device/ptx/generated/wgmma_n128.cuh>
#include <sluice/device/ptx/mbarrier.cuh>
#include <sluice/device/ptx/sync.cuh>
#include <sluice/device/ptx/tma.cuh>

namespace ladder {

namespace ptx = sluice::ptx;
using Product = ptx::Wgmma<sluice::DType::bf16, sluice::DType::bf16, 128>;
constexpr Launch kLaunch = kSteps[5];
constexpr int kTile = 128, kDepth = kLaunch.tile_k, kStages = kLaunch.stages, kRow = kLaunch.row_bytes;
constexpr int kTileBytes = kTile * kRow;

__device__ void load_stage(const Params& p, unsigned stage, unsigned full, int start) {
  ptx::mbarrier_arrive_expect_tx(full, 2 * kTileBytes);
  ptx::tma_load(stage, p.map_a, {start, int(blockIdx.y) * kTile, 0}, full);
  ptx::tma_load(stage + kTileBytes, p.map_b, {start, int(blockIdx.x) * kTile, 0}, full);
}

/// Multiplies 64 rows of A by 128 of B and adds the product: 64 columns of k in four steps of 16 (32 bytes).
__device__ void multiply(float (&sums)[64], unsigned a, unsigned b) {
  const sluice::u64 left = ptx::smem_descriptor(a, 0, 8 * kRow), right = ptx::smem_descriptor(b, 0, 8 * kRow);
  ptx::pin_registers(sums);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step)
    Product::mma<0, 0>(sums, left + step * (32 >> 4), right + step * (32 >> 4), 1);
  ptx::wgmma_commit_group();
  ptx::pin_registers(sums);
}

}  // namespace ladder

extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ ladder::Params p) {
  using namespace ladder;
  extern __shared__ char memory[];
  __shared__ unsigned long long full[kStages];
  const unsigned base = (ptx::shared_address(memory) + 1023) & ~1023u;
  const auto barrier = [&](int stage) { return ptx::shared_address(&full[stage]); };
  const auto stage_at = [&](int tile) { return base + tile % kStages * 2 * kTileBytes; };
  const int group = threadIdx.x / 128, tiles = p.k / kDepth;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) ptx::mbarrier_init(barrier(stage), 1);
    ptx::fence_mbarrier_init();
    for (int tile = 0; tile < kStages && tile < tiles; ++tile)
      load_stage(p, stage_at(tile), barrier(tile), tile * kDepth);
  }
  __syncthreads();
  float sums[64] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    ptx::mbarrier_wait_parity(barrier(tile % kStages), tile / kStages % 2);
    multiply(sums, stage_at(tile) + group * 64 * kRow, stage_at(tile) + kTileBytes);
    ptx::wgmma_wait_group<0>();
    ptx::pin_registers(sums);
    __syncthreads();  // both groups have read this stage, so it may be filled again
    if (const int next = tile + kStages; threadIdx.x == 0 && next < tiles)
      load_stage(p, stage_at(next), barrier(next % kStages), next * kDepth);
  }
  // A lane holds columns 8 j + 2 (lane % 4) and the next one, of rows lane / 4 and lane / 4 + 8.
  const int row = blockIdx.y * kTile + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  float* out = p.d + size_t(row) * p.n + blockIdx.x * kTile + threadIdx.x % 4 * 2;
  for (int j = 0; j < 16; ++j) {
    *reinterpret_cast<float2*>(out + j * 8) = {sums[4 * j], sums[4 * j + 1]};
    *reinterpret_cast<float2*>(out + size_t(8) * p.n + j * 8) = {sums[4 * j + 2], sums[4 * j + 3]};
  }
}
