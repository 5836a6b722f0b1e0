// SPDX-License-Identifier: Apache-2.0
// How kernels/sum_parts.cuh shares out the sums of split-K slices. A CTA takes 64 rows and a few columns of
// one part of a tile; its warpgroups take a share of the peers each. Read by that kernel, by the host for its
// grid, and by the host twin.
#pragma once

#include <sluice/spec/work_split.h>

namespace sluice {

/// Most warpgroups of a CTA.
inline constexpr int kMostSummers = 4;
inline constexpr int kMostSumThreads = kMostSummers * kWarpgroupThreads;
inline constexpr int kSumCtas = 2;  // CTAs of the largest size that share an SM

/// Columns that a CTA sums: few, so that a D of 256 x 256 is shared out to 128 SMs.
inline constexpr int kSumColumns = 8;

/// The sums that one CTA adds up.
struct SumBlock {
  int tile = 0;      // index among the streamed cluster tiles
  int cta_rank = 0;  // rank in its cluster of the CTA that wrote the sums
  int part = 0;      // index among the parts that are combined separately
  int wave = 0;
  int column = 0;  // first column, counted from that CTA's first
};

SLUICE_HD constexpr i64 sum_blocks(const KernelConfig& c, int streamed) {
  return i64{streamed} * cluster_size(c) * combined_parts(c) * waves(c) * (own_columns(c) / kSumColumns);
}
/// Warpgroups of each CTA. More than two CTAs for each of an H200's 132 SMs are resident together only if
/// they are smaller. 512 x 512 x 32768 takes 29.4 us that way, 30.7 us in two waves. Every GPU uses one
/// number, since it decides the order of sums and so their bits.
inline constexpr i64 kLargeSumBlocks = kSumCtas * 132;
SLUICE_HD constexpr int summers_of(i64 blocks) {
  return blocks > kLargeSumBlocks ? kMostSummers / 2 : kMostSummers;
}
/// Places block `index`: neighbours sum neighbouring columns.
SLUICE_HD constexpr SumBlock sum_block(const KernelConfig& c, int index) {
  const int across = own_columns(c) / kSumColumns;
  const int wave = index / across, part = wave / waves(c), cta = part / combined_parts(c);
  return {cta / cluster_size(c), cta % cluster_size(c), part % combined_parts(c), wave % waves(c),
          index % across * kSumColumns};
}

/// The peers that one warpgroup adds up; the warpgroups' sums are then added in order.
struct PeerRange {
  int begin = 0, end = 0;
};
SLUICE_HD constexpr PeerRange peers_of_summer(int peers, int summers, int summer) {
  return {quotient(peers * summer, summers), quotient(peers * (summer + 1), summers)};
}

}  // namespace sluice
