// SPDX-License-Identifier: Apache-2.0
// The table of groups in shared memory, and the warp that fills it from global memory (spec/groups.h).
#pragma once

#include <sluice/spec/params.h>
#include <sluice/spec/smem_layout.h>
#include <sluice/device/ptx/shared.cuh>

namespace sluice {

struct SharedInts {
  u32 address;

  SLUICE_DEVICE int get(int i) const { return static_cast<int>(ptx::load_shared_u32(address + 4 * i)); }
  SLUICE_DEVICE void put(int i, int value) const {
    ptx::store_shared_u32(address + 4 * i, static_cast<u32>(value));
  }
};

/// Fills the table. Call with all lanes of one warp.
template <class Numbers>
SLUICE_DEVICE void run_scan(const GroupScan<Numbers, SharedInts>& scan) {
  const int lane = threadIdx.x % 32;
  int largest = scan.largest_end(lane);
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, largest, step);
    if (lane >= step) largest = max(largest, other);
  }
  const int before = __shfl_up_sync(~0u, largest, 1);
  const int own = scan.put_rows(lane, lane == 0 ? 0 : before);
  int tiles = own;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, tiles, step);
    if (lane >= step) tiles += other;
  }
  scan.put_tiles(lane, tiles - own);
}

/// Call with all lanes of one warp, behind the PDL wait: an earlier launch may write the table.
template <KernelConfig kConfig>
SLUICE_DEVICE void scan_groups(const GemmParams& params, const GroupTable<SharedInts>& table) {
  const auto& grouped = static_cast<const GroupedParams&>(params);
  const auto numbers = [&](int g) { return grouped.group_numbers[g]; };
  run_scan(GroupScan<decltype(numbers), SharedInts>{kConfig.groups.kind, grouped.group_pitch,
                                                    grouped.group_total, params.grid.batch,
                                                    group_tile_extent(kConfig), numbers, table});
}

/// Zeros the rows of k from `live` on, in a math group's blocks of A and in all blocks of B. A block has 64
/// columns, and a row of 128 bytes for each k. A NaN of another group times zeros of one operand would be
/// NaN. Call with all threads of the group.
template <KernelConfig kConfig>
SLUICE_DEVICE void zero_rows_of_k(u32 a, u32 b, int live, int thread) {
  constexpr int kBlockBytes = kConfig.tile.k * kSwizzleRowBytes;
  for (int i = live * kSwizzleRowBytes + thread * 16; i < kBlockBytes; i += kWarpgroupThreads * 16) {
#pragma unroll
    for (int block = 0; block < waves(kConfig); ++block) ptx::store_shared_zeros(a + block * kBlockBytes + i);
#pragma unroll
    for (int block = 0; block < ceil_div(kConfig.tile.n, kMnBlock); ++block)
      ptx::store_shared_zeros(b + block * kBlockBytes + i);
  }
}

}  // namespace sluice
