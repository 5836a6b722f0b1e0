// SPDX-License-Identifier: Apache-2.0
// The second kernel of a GEMM that splits k with Combine::separate. All SMs add up the partial sums that the
// GEMM's clusters left in the workspace, and store D. A single SM that reads all slots of a tile gets 110
// GB/s: 33 slots of 64 KB take it 20 us, but all SMs together 2 us (docs/findings/splits.md).
//
// It is a dependent launch of the GEMM, which triggers at its start. So it has no launch overhead, and its
// CTAs start as those of the GEMM exit. Every CTA waits for the whole GEMM before it reads or exits.
//
// Roles: the warpgroups of sum_grid(). Each adds up its share of the peers, in the order of k, and with the
// slots' fragment layout. The first warpgroup then adds the others' results in their order, and stores. So
// the bits depend only on the plan.
#pragma once

#include <sluice/spec/part_sums.h>
#include <sluice/device/epilogue/direct_store.cuh>
#include <sluice/device/epilogue/partial_slot.cuh>
#include <sluice/device/load/pixel_walk.cuh>
#include <sluice/device/ptx/sync.cuh>

namespace sluice {

template <KernelConfig kConfig, int kColumns>
struct PartSummer {
  using Slot = PartialSlot<1, kColumns, kColumns>;
  using Sums = Accumulator<1, kColumns>;

  const GemmParams& params;
  SumBlock at;
  Tile tile;  // the tile of the CTA that wrote the sums, from the first column that it owns on
  Sharing sharing;
  int summers, summer, thread;

  SLUICE_DEVICE PartSummer(const GemmParams& p, int block)
      : params(p),
        at(sum_block(kConfig, block, kColumns)),
        tile(tile_at(kConfig, p.grid, p.raster, p.raster_group, at.tile, at.cta_rank)),
        sharing(sharing_of(p.slices, at.tile, 0)),
        summers(blockDim.x / kWarpgroupThreads),
        summer(threadIdx.x / kWarpgroupThreads),
        thread(threadIdx.x % kWarpgroupThreads) {
    tile = own_part(kConfig, tile, at.cta_rank);
  }

  SLUICE_DEVICE int first_row() const { return at.part * group_rows(kConfig) + at.wave * kWaveRows; }
  /// Rows inside the matrix, from this warp's first row on; if 0 or less, the slots have no data for this
  /// warp.
  SLUICE_DEVICE int live_rows() const { return params.m - (tile.m_offset + first_row() + thread / 32 * 16); }
  SLUICE_DEVICE const float* slot(int rank) const {
    const int index = part_index(kConfig, sharing.slot + rank, at.cta_rank, at.part);
    const int vector = (at.wave * own_columns(kConfig) + at.column) / 8;
    return params.partials + i64{index} * part_floats(kConfig) + vector * Slot::kVectorFloats + thread * 4;
  }
  SLUICE_DEVICE PeerRange peers() const { return peers_of_summer(sharing.peers, summers, summer); }

  SLUICE_DEVICE void add_own(Sums& sums) const {
    const PeerRange range = peers();
    sums.clear();
    Slot::sum(sums, slot(range.begin), peer_pitch(kConfig), range.end - range.begin, live_rows());
  }
  SLUICE_DEVICE void store(const Sums& sums) const {
    ElementWise<kConfig.epilogue> ops(params);
    ops.read_tensor_scales();
    const int row = tile.m_offset + first_row() + thread / 32 * 16 + thread % 32 / 4;
    const RowScales scales = ops.row_scales(row);
#pragma unroll
    for (int unit = 0; unit < kColumns / 8; ++unit)
      store_columns_of(ops, scales, row, tile.n_offset + at.column + 8 * unit + thread % 4 * 2,
                       &sums.values[0][4 * unit]);
  }

 private:
  /// Stores two neighbouring columns of this thread's two rows.
  SLUICE_DEVICE void store_columns_of(const ElementWise<kConfig.epilogue>& ops, const RowScales& scales,
                                      int row, int column, const float* sums) const {
    const int d = d_column<kConfig>(params, column);
    if constexpr (kConfig.conv.op == ConvOp::wgrad)
      if (d < 0) return;
    const Position upper{row, d, tile.batch}, lower{row + 8, d, tile.batch};
    const FragmentPairs pairs =
        ops.apply_to_fragment(sums, scales, ops.columns(column), {ops.residual(upper), ops.residual(lower)});
    store_pair<kConfig.d, kConfig.epilogue>(params, upper, pairs.upper);
    store_pair<kConfig.d, kConfig.epilogue>(params, lower, pairs.lower);
  }
};

template <KernelConfig kConfig, int kColumns>
SLUICE_DEVICE void sum_columns(const GemmParams& params) {
  using Summer = PartSummer<kConfig, kColumns>;
  constexpr int kFloats = kColumns / 2;  // accumulators of one thread
  // CTAs with more columns have one warpgroup.
  constexpr int kOthers = kColumns == kSumColumns ? kMostSummers - 1 : 1;
  __shared__ float others[kOthers][kFloats][kWarpgroupThreads];
  const Summer work(params, blockIdx.x);
  ptx::wait_for_prerequisites();
  typename Summer::Sums sums;
  work.add_own(sums);
  if (work.summer != 0) {
#pragma unroll
    for (int i = 0; i < kFloats; ++i) others[work.summer - 1][i][work.thread] = sums.values[0][i];
  }
  __syncthreads();
  if (work.summer != 0) return;
  for (int summer = 1; summer < work.summers; ++summer)
#pragma unroll
    for (int i = 0; i < kFloats; ++i) sums.values[0][i] += others[summer - 1][i][work.thread];
  work.store(sums);
}

template <KernelConfig kConfig>
SLUICE_DEVICE void sum_parts(const GemmParams& params) {
  if constexpr (own_columns(kConfig) % kWideSumColumns == 0)
    if (blockDim.x == kWarpgroupThreads) return sum_columns<kConfig, kWideSumColumns>(params);
  sum_columns<kConfig, kSumColumns>(params);
}

}  // namespace sluice
