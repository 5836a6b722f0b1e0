// SPDX-License-Identifier: Apache-2.0
// Where the clusters of a launch lie, and the numbers that they get by it (Numbering::gpc). The GPU deals
// clusters out over its GPCs turn about, in an order that launches on an idle GPU repeat, but for where it
// begins, and that differs from card to card, because cards differ in which SMs of a GPC work. Arithmetic
// only: locate.cc asks the GPU, gemm.cc takes the numbers.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/work_split.h>

namespace sluice {

/// One launch with one CTA an SM: the SM of each CTA, in the grid's order.
struct LaunchPlaces {
  int cluster = 1;  // CTAs
  std::vector<u32> sms;
};

/// CTAs of the clusters that can be numbered.
inline constexpr std::array<int, 4> kNumberedClusters{8, 4, 2, 1};

/// The GPC of each cluster of a launch, numbered from 0, in the grid's order; one entry for each size.
struct GpcOrder {
  std::array<std::vector<u8>, kNumberedClusters.size()> of_clusters;

  /// Empty for other sizes.
  std::span<const u8> of(int cluster_size) const;
};

/// SMs that were in one cluster are in one GPC; those that never were in one of more than two go to the
/// smallest GPC: H200s have one whose other half makes no larger clusters. The order of a size is that of its
/// last launch.
GpcOrder gpc_order_of(std::span<const LaunchPlaces> launches);

/// Of `clusters` clusters of a launch, those of the GPC that comes first get the first numbers, and so on: a
/// permutation of 0..clusters-1. Where all tiles are dealt out alike, neighbours are at one place of k in
/// different tiles. As launched if the order says too little. `tiles`: cluster tiles of the launch.
std::array<u8, kMostNumbered> numbers_by_gpc(std::span<const u8> order, const WorkSplit& split, double tiles);

}  // namespace sluice
