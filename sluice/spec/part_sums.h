// SPDX-License-Identifier: Apache-2.0
// How kernels/sum_parts.cuh divides the adding up of split-K slices. A CTA takes 64 rows and a few columns of
// one part of a tile. If there are few such blocks, the CTA's warpgroups each add up a share of the peers. If
// there are many, one warpgroup adds up all peers for twice the columns. Read by that kernel, by the host for
// its grid, and by the host twin.
#pragma once

#include <sluice/spec/work_split.h>

namespace sluice {

/// Most warpgroups per CTA.
inline constexpr int kMostSummers = 4;
inline constexpr int kMostSumThreads = kMostSummers * kWarpgroupThreads;
inline constexpr int kSumCtas = 2;  // CTAs of the largest size that fit on an SM

/// Columns that a CTA adds up. They are few, so that a D of 256 x 256 is divided among 128 SMs. For a large D
/// there are twice as many, so that a thread has several loads in flight for any number of peers.
inline constexpr int kSumColumns = 8;
inline constexpr int kWideSumColumns = 16;

/// The sums that one CTA adds up.
struct SumBlock {
  int tile = 0;      // index of the cluster tile
  int cta_rank = 0;  // rank, in its cluster, of the CTA that wrote the sums
  int part = 0;      // index among the parts of a tile that are combined separately
  int wave = 0;
  int column = 0;  // first column, counted from that CTA's first
};

/// The launch: its CTAs, and the columns and warpgroups per CTA.
struct SumGrid {
  i64 blocks = 0;
  int columns = kSumColumns;
  int summers = 1;
};
// All GPUs use the same bounds, because they determine the order of additions and so the bits. More than two
// CTAs per SM of an H200 (132 SMs) are resident together only if they are smaller. With smaller CTAs 512 x
// 512 x 32768 takes 29.4 us, in two waves 30.7 us. From kManySumBlocks on, CTAs have one warpgroup. They add
// up 1024 x 1024 in 2 to 8 parts in 3.2 to 6.9 us; CTAs whose warpgroups share the peers take 8.4 to 9.7 us
// (docs/findings/im2col.md, E6).
inline constexpr i64 kLargeSumBlocks = kSumCtas * 132;
inline constexpr i64 kManySumBlocks = 1024;
SLUICE_HD constexpr SumGrid sum_grid(const KernelConfig& c, int tiles) {
  const i64 blocks =
      i64{tiles} * cluster_size(c) * combined_parts(c) * waves(c) * (own_columns(c) / kSumColumns);
  if (blocks <= kManySumBlocks) return {blocks, kSumColumns, blocks > kLargeSumBlocks ? 2 : kMostSummers};
  if (own_columns(c) % kWideSumColumns != 0) return {blocks, kSumColumns, 1};
  return {blocks / 2, kWideSumColumns, 1};
}
/// The block of CTA `index`: neighbouring CTAs have neighbouring columns.
SLUICE_HD constexpr SumBlock sum_block(const KernelConfig& c, int index, int columns) {
  const int across = own_columns(c) / columns;
  const int wave = index / across, part = wave / waves(c), cta = part / combined_parts(c);
  return {cta / cluster_size(c), cta % cluster_size(c), part % combined_parts(c), wave % waves(c),
          index % across * columns};
}

/// The peers that one warpgroup adds up. The warpgroups' results are then added in order.
struct PeerRange {
  int begin = 0, end = 0;
};
SLUICE_HD constexpr PeerRange peers_of_summer(int peers, int summers, int summer) {
  return {quotient(peers * summer, summers), quotient(peers * (summer + 1), summers)};
}

}  // namespace sluice
