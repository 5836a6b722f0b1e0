// SPDX-License-Identifier: Apache-2.0
// clang-format off
// Few rows of A (decoding: "tokens") with plain loads: D = epilogue(A B^T) without TMA and without roles. A kernel
// this small ends before a ring of TMA boxes has filled (docs/findings/plain-loads.md). There are two schedules:
// teams are warps that multiply by mma.sync (plain), or warpgroups that multiply by WGMMA (plain_wgmma).
//
// | warps       | what they do                                                                       |
// | each        | copies its team's k-tiles into the team's ring (cp.async), multiplies              |
// | all, at end | add up the partial sums of the teams, then of the cluster (warp_sums.cuh), store D |
//
// | synchronisation          | threads                 | what it orders                                                          |
// | wait_copies, __syncwarp  | a warp (plain)          | writes of a stage before its reads, its reads before the next writes    |
// | GroupSums::meet          | a group (plain_wgmma)   | writes of a stage before its reads, its reads before the next writes    |
// | __syncthreads, twice     | a CTA                   | last reads of rings, writes of sums, reads of sums                      |
// | cluster barrier, twice   | the CTAs of a cluster   | all have started; sent sums before they are read                        |
// | griddepcontrol.wait      | every thread, if        | all earlier launches and their writes before A, scale_a, C are read and |
// |                          | config.overlap has one  | D is written; only B, scale_b and bias may be read earlier. With slots  |
// |                          |                         | first of all: the table says which B, and whether the CTA has a row     |
// clang-format on
#pragma once

#include <sluice/spec/validate.h>
#include <sluice/device/dependent_launch.cuh>
#include <sluice/device/epilogue/direct_store.cuh>
#include <sluice/device/epilogue/warp_sums.cuh>
#include <sluice/device/plain/group_copier.cuh>
#include <sluice/device/plain/group_sums.cuh>
#include <sluice/device/plain/tile_sums.cuh>
#include <sluice/device/warp_ring.cuh>

namespace sluice {

template <KernelConfig kConfig>
SLUICE_DEVICE plain::Place plain_place(const GemmParams& params, u32 smem) {
  constexpr int kParts = kConfig.cluster.k;
  plain::Place p;
  p.lane = static_cast<int>(threadIdx.x) % (32 * team_warps(kConfig));
  p.team = static_cast<int>(threadIdx.x) / (32 * team_warps(kConfig));
  p.rank = static_cast<int>(blockIdx.x) % kParts;
  p.first_row = static_cast<int>(blockIdx.x) / kParts * kConfig.tile.n;
  const int y = static_cast<int>(blockIdx.y);
  if constexpr (by_slots(kConfig)) {
    const GroupedParams& grouped = static_cast<const GroupedParams&>(params);
    p.batch = group_of_slot(grouped.group_numbers[y], params.grid.batch);
    p.first_token = y;
    p.first_row_a = quotient(y, grouped.group_pitch);
    p.matrix = 0;
  } else {
    // Avoids the division for a single matrix: it would take 0.1 us of a 4 us kernel.
    p.batch = params.grid.batch == 1 ? 0 : y / params.grid.rows;
    p.first_token = (y - p.batch * params.grid.rows) * kConfig.tile.m;
    p.first_row_a = p.first_token;
    p.matrix = p.batch;
  }
  const int stages = ceil_div(params.grid.k_tiles, stage_k_tiles(kConfig));
  p.first_stage = static_cast<int>(static_cast<i64>(p.rank) * stages / kParts) + p.team;
  const int end = static_cast<int>(static_cast<i64>(p.rank + 1) * stages / kParts);
  p.count = max(0, (end - p.first_stage + teams(kConfig) - 1) / teams(kConfig));
  p.ring = smem + p.team * kConfig.stages * plain_stage_bytes(kConfig);
  return p;
}

/// The copier and the products of a team.
template <KernelConfig kConfig, Schedule kSchedule = kConfig.schedule>
struct PlainTeam {
  using Copier = plain::Copier<kConfig>;
  using Sums = plain::TileSums<kConfig>;
  // true: products are issued before the copies that overwrite the stage read last
  static constexpr bool kProductsFirst = false;
};
template <KernelConfig kConfig>
struct PlainTeam<kConfig, Schedule::plain_wgmma> {
  using Copier = plain::GroupCopier<kConfig>;
  using Sums = plain::GroupSums<kConfig>;
  static constexpr bool kProductsFirst = true;
};

template <KernelConfig kConfig>
SLUICE_DEVICE void run_plain(const GemmParams& params) {
  static_assert(validate(kConfig) == nullptr, "impossible config: spec/validate.h names the rule");
  using Sums = WarpSums<plain_tile(kConfig)>;
  using Launch = DependentLaunch<kConfig.overlap>;
  extern __shared__ __align__(1024) u8 smem[];
  const u32 base = ptx::shared_address(smem);
  Launch::begin();
  Sums::announce();
  if constexpr (by_slots(kConfig)) Launch::wait();
  const plain::Place at = plain_place<kConfig>(params, base);
  if (by_slots(kConfig) && at.batch < 0) return;  // with all CTAs of the cluster

  typename PlainTeam<kConfig>::Copier copier(params, at);
  const auto copy = [&](u32 stage) { copier.copy(stage); };
  const WarpRing<kConfig.stages, plain_stage_bytes(kConfig)> ring(at.ring, at.count);
  Launch::fill(ring, copier, params);
  typename PlainTeam<kConfig>::Sums tile;
  ElementWise<kConfig.epilogue> element(params);
  const TensorScales scales =
      element.load_tensor_scales();  // used after the last tile, so their latency is hidden
  const auto loads_issued = [&] {
    if (!overlaps(kConfig.overlap) || threadIdx.x != 0) return;
    Launch::loaded();
    Launch::hand_off(params);
  };
  ring.template run<PlainTeam<kConfig>::kProductsFirst>(
      copy, [&](u32 stage) { tile.add_tile(stage, at.lane); }, loads_issued, [&] { tile.meet(at.team); });
  tile.finish();

  element.set_tensor_scales(scales);
  // A plain batch shares its vectors of columns; with slots each group has its own.
  const i64 vectors = by_slots(kConfig) ? i64{at.batch} * params.n : 0;
  const auto store = [&](int token, int row, const ptx::Float4& sum) {
    if constexpr (kConfig.epilogue.gated) {  // tile rows alternate: a pair of the gate, then a pair of "up"
                                             // (plain/copier.cuh)
      const Position at_d{at.first_token + token, (at.first_row + row) / 2, at.matrix};
      if (at_d.row >= params.m || at_d.column >= params.n / 2) return;
      const ColumnPair operands[] = {element.columns(at_d.column, vectors),
                                     element.columns(params.n / 2 + at_d.column, vectors)};
      return store_pair<kConfig.d, kConfig.epilogue>(
          params, at_d,
          element.apply_gated({sum.x, sum.y}, {sum.z, sum.w}, element.row_scale(at.first_row_a + token),
                              operands));
    }
    const Position first{at.first_token + token, at.first_row + row, at.matrix};
    const Position second{first.row, first.column + 2, first.batch};
    if (first.row >= params.m || first.column >= params.n) return;
    const float scale = element.row_scale(at.first_row_a + token);
    store_pair<kConfig.d, kConfig.epilogue>(
        params, first,
        element.apply({sum.x, sum.y}, scale, element.columns(first.column, vectors),
                      element.residual(first)));
    store_pair<kConfig.d, kConfig.epilogue>(
        params, second,
        element.apply({sum.z, sum.w}, scale, element.columns(second.column, vectors),
                      element.residual(second)));
  };
  Sums(base, base + plain_incoming_offset(kConfig), at.rank).add_up(tile.sums, {1.0f, 1.0f}, store);
}

}  // namespace sluice
