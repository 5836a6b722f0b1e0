// SPDX-License-Identifier: Apache-2.0
// How the kernel that adds up parts (kernels/sum_parts.cuh) shares out the sums: a CTA takes 64 rows and a
// few columns of one part of a tile, and its warpgroups a share of the peers each. Read by that kernel, by
// the host (its grid) and by the host twin.
#pragma once

#include <sluice/spec/work_split.h>

namespace sluice {

/// Warpgroups of a CTA, at most.
inline constexpr int kMostSummers = 4;
inline constexpr int kMostSumThreads = kMostSummers * kWarpgroupThreads;
inline constexpr int kSumCtas = 2;  // of so many, that share an SM

/// Columns that a CTA sums: as few as can be, so that a D of 256 x 256 is shared out to 128 SMs.
inline constexpr int kSumColumns = 8;

/// What one CTA sums.
struct SumBlock {
  int tile = 0;      // of the streamed cluster tiles
  int cta_rank = 0;  // of the CTA in the cluster whose sums they are
  int part = 0;      // which of the parts that are combined on their own
  int wave = 0;
  int column = 0;  // first one, counted from that CTA's first
};

SLUICE_HD constexpr i64 sum_blocks(const KernelConfig& c, int streamed) {
  return i64{streamed} * cluster_size(c) * combined_parts(c) * waves(c) * (own_columns(c) / kSumColumns);
}
/// Warpgroups of each of them. More CTAs than two for each of an H200's 132 SMs are there at once only if
/// they are smaller: 512 x 512 x 32768 takes 29.4 us so, and 30.7 in two waves. The same number on every GPU,
/// since it decides about the order of sums and with that about bits.
inline constexpr i64 kLargeSumBlocks = kSumCtas * 132;
SLUICE_HD constexpr int summers_of(i64 blocks) {
  return blocks > kLargeSumBlocks ? kMostSummers / 2 : kMostSummers;
}
/// Neighbours sum neighbouring columns.
SLUICE_HD constexpr SumBlock sum_block(const KernelConfig& c, int index) {
  const int across = own_columns(c) / kSumColumns;
  const int wave = index / across, part = wave / waves(c), cta = part / combined_parts(c);
  return {cta / cluster_size(c), cta % cluster_size(c), part % combined_parts(c), wave % waves(c),
          index % across * kSumColumns};
}

/// The peers that one warpgroup adds up, before the warpgroups' sums are added up in their order.
struct PeerRange {
  int begin = 0, end = 0;
};
SLUICE_HD constexpr PeerRange peers_of_summer(int peers, int summers, int summer) {
  return {quotient(peers * summer, summers), quotient(peers * (summer + 1), summers)};
}

}  // namespace sluice
