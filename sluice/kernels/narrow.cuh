// SPDX-License-Identifier: Apache-2.0
// Few tokens times packed weights: D[m][n] = act(X W^T + bias), W = scale * (code - zero).
//
// | warps       | what they do                                                                              |
// | each        | copies its own k-tiles into its own ring, expands codes, multiplies (mma.sync), scales    |
// | all, at end | add up their partial sums through shared memory, then those of the cluster's CTAs; with   |
// |             | norm_a also the squares of each token, by whose root mean square they divide the sums     |
//
// | synchronisation                   | threads        | what it orders                                     |
// | wait_copies, __syncwarp           | a warp         | writes of a stage before its reads, its reads      |
// |                                   |                | before the copies that overwrite it                |
// | __syncthreads, twice              | a CTA          | last reads of rings, writes of sums, reads of sums |
// | cluster: arrive at the start,     | the cluster    | each CTA has started before others write to its    |
// | wait before the first send        |                | shared memory                                      |
// | cluster: arrive, wait             | the cluster    | sent sums before they are read                     |
// | griddepcontrol.wait, if           | every thread   | earlier launches and their writes before X and C   |
// | config.overlap has a wait         |                | are read and D is written; weights, bias and gamma |
// |                                   |                | may be read earlier                                |
// | with groups: the same wait first, | a CTA          | the table's scan before its tile is looked up,     |
// | then __syncthreads, twice         |                | and that before rings overwrite the table          |
//
// No CTA waits for another cluster, the kernel keeps no state between launches, and sums are always added in
// the same order. Launched by run/ops/packed.cc.
#pragma once

#include <sluice/device/dependent_launch.cuh>
#include <sluice/device/packed/copier.cuh>
#include <sluice/device/packed/finish.cuh>
#include <sluice/device/packed/group_tile.cuh>
#include <sluice/device/packed/token_rows.cuh>
#include <sluice/device/warp_ring.cuh>

namespace sluice::packed {

/// Computes the CTA's rows of a tile of tokens.
template <NarrowConfig kConfig>
SLUICE_DEVICE void run_tile(const NarrowParams& params, u32 base, int tile) {
  using S = Shape<kConfig>;
  using Launch = DependentLaunch<kConfig.overlap>;
  WarpSums<warp_tile(kConfig)>::announce();
  const Place at = place_of<kConfig>(params, base, tile);

  Copier<kConfig> copier(params, at);
  const auto copy = [&](u32 stage) { copier.copy(stage); };
  const WarpRing<kConfig.stages, S::kStageBytes> ring(at.ring, at.count);
  Launch::fill(ring, copier, params);
  const auto issued = [&] {  // warps take tiles in turn, so all are about as far as this one
    if (threadIdx.x == 0) Launch::loaded();
  };
  const auto hand_off = [&] {
    if (threadIdx.x == 0) Launch::hand_off(params);
  };
  if constexpr (kConfig.token_blocks == 1) {
    TileSums<kConfig> sums(params, at);
    TokenSquares<kConfig> squares;
    ring.run(
        copy,
        [&](u32 stage) {
          sums.add_tile(stage, at);
          if constexpr (kConfig.norm_a) squares.add_tile(stage, at.lane);
        },
        issued);
    hand_off();
    if constexpr (kConfig.norm_a) squares.leave(base, at);
    Finish<kConfig>(params, at, base).run(sums);
  } else {
    TokenRows<kConfig> sums(params, at);
    ring.run(
        copy, [&](u32 stage) { sums.add_tile(stage); }, issued);
    hand_off();
    Finish<kConfig>(params, at, base).run(sums);
  }
}

template <NarrowConfig kConfig>
SLUICE_DEVICE void run_narrow(const NarrowParams& params) {
  static_assert(validate(kConfig) == nullptr);
  using Launch = DependentLaunch<kConfig.overlap>;
  extern __shared__ __align__(128) u8 smem[];
  Launch::begin();
  const u32 base = ptx::shared_address(smem);
  if constexpr (kConfig.groups.kind == GroupKind::none) {
    run_tile<kConfig>(params, base, static_cast<int>(blockIdx.y));
  } else {
    Launch::wait();
    NarrowParams own = params;
    const int tile = take_group<kConfig>(own, base);
    if (tile >= 0) run_tile<kConfig>(own, base, tile);
  }
}

}  // namespace sluice::packed
