// SPDX-License-Identifier: Apache-2.0
// Step 5: TMA. One thread requests a whole tile and continues at once. The copy engine computes the
// addresses, and signals an mbarrier in shared memory with the bytes that have arrived. All threads wait
// there for the next stage.
//
// What it adds: no thread copies any more. Instead of 8 instructions of 256 threads per stage there are 2 of
// one thread. The engine writes rows of 128 bytes and swizzles their 16-byte chunks: chunk c of row r is
// stored at c xor (r mod 8). So the eight rows of a block are in different banks without padding, and reads
// must apply the same swizzle. A wait names a parity: a barrier's phase completes when the expected bytes
// have arrived, and then the parity flips. What it leaves out: the operands still pass through registers. And
// a barrier of all threads tells that a stage is free, so the fastest warp waits for the slowest one 64 times
// over k = 4096.
#include "ladder.h"

#include <sluice/device/ptx/mbarrier.cuh>
#include <sluice/device/ptx/mma.cuh>
#include <sluice/device/ptx/sync.cuh>
#include <sluice/device/ptx/tma.cuh>

namespace ladder {

namespace ptx = sluice::ptx;
constexpr Launch kLaunch = kSteps[4];
constexpr int kTile = 128, kDepth = kLaunch.tile_k, kStages = kLaunch.stages, kRow = kLaunch.row_bytes;
constexpr int kTileBytes = kTile * kRow;

/// Called by one thread. Requests both tiles of a stage: 64 columns of k from `start` on.
__device__ void load_stage(const Params& p, unsigned stage, unsigned full, int start) {
  ptx::mbarrier_arrive_expect_tx(full, 2 * kTileBytes);
  ptx::tma_load(stage, p.map_a, {start, int(blockIdx.y) * kTile, 0}, full);
  ptx::tma_load(stage + kTileBytes, p.map_b, {start, int(blockIdx.x) * kTile, 0}, full);
}

/// Loads 16 rows from `row` on and 16 columns of a swizzled tile, as in step 4.
__device__ void load_16x16(unsigned (&out)[4], unsigned tile, int row, int column) {
  const int lane = threadIdx.x % 32, own = row + lane % 16, chunk = column / 8 + lane / 16;
  ptx::load_matrices(tile + own * kRow + (chunk ^ own % 8) * 16, out[0], out[1], out[2], out[3]);
}

}  // namespace ladder

extern "C" __global__ void __launch_bounds__(256) sluice_entry(const __grid_constant__ ladder::Params p) {
  using namespace ladder;
  extern __shared__ char memory[];
  __shared__ unsigned long long full[kStages];  // mbarriers
  const unsigned base =
      (ptx::shared_address(memory) + 1023) & ~1023u;  // the swizzle pattern starts at multiples of 1024 bytes
  const auto barrier = [&](int stage) { return ptx::shared_address(&full[stage]); };
  const auto stage_at = [&](int tile) { return base + tile % kStages * 2 * kTileBytes; };
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = p.k / kDepth;
  const int own_row = warp / 4 * 64, own_column = warp % 4 * 32;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) ptx::mbarrier_init(barrier(stage), 1);
    ptx::fence_mbarrier_init();
    for (int tile = 0; tile < kStages - 1 && tile < tiles; ++tile)
      load_stage(p, stage_at(tile), barrier(tile), tile * kDepth);
  }
  __syncthreads();
  float sums[4][4][4] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    ptx::mbarrier_wait_parity(barrier(tile % kStages), tile / kStages % 2);
    __syncthreads();  // all threads have read the previous stage, which is filled now
    if (const int next = tile + kStages - 1; threadIdx.x == 0 && next < tiles)
      load_stage(p, stage_at(next), barrier(next % kStages), next * kDepth);
    const unsigned a = stage_at(tile), b = a + kTileBytes;
#pragma unroll
    for (int column = 0; column < kDepth; column += 16) {
      unsigned left[4][4], right[2][4];
      for (int i = 0; i < 4; ++i) load_16x16(left[i], a, own_row + i * 16, column);
      for (int i = 0; i < 2; ++i) load_16x16(right[i], b, own_column + i * 16, column);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
          ptx::mma_m16n8k16<sluice::DType::bf16>(sums[i][j], left[i], right[j / 2][j % 2],
                                                 right[j / 2][j % 2 + 2], sums[i][j]);
    }
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      for (int half = 0; half < 2; ++half) {
        const int row = blockIdx.y * kTile + own_row + i * 16 + half * 8 + lane / 4;
        const int column = blockIdx.x * kTile + own_column + j * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(p.d + size_t(row) * p.n + column) = {sums[i][j][half * 2],
                                                                        sums[i][j][half * 2 + 1]};
      }
}
