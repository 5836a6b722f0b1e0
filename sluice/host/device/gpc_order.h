// SPDX-License-Identifier: Apache-2.0
// Places of a launch's clusters, and cluster numbers that follow from them (Numbering::gpc). The GPU deals
// clusters to its GPCs in turn. On an idle GPU the order repeats from launch to launch, except for its first
// GPC. It differs from card to card, as cards differ in the SMs that work. Pure arithmetic: locate.cc asks
// the GPU, gemm.cc uses the numbers.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/work_split.h>

namespace sluice {

/// One launch with one CTA an SM: the SM of each CTA, in grid order.
struct LaunchPlaces {
  int cluster = 1;  // CTAs of a cluster
  std::vector<u32> sms;
};

/// Sizes of clusters that can be numbered, in CTAs.
inline constexpr std::array<int, 4> kNumberedClusters{8, 4, 2, 1};

/// GPC of each cluster of a launch, in grid order; GPCs count from 0. One list for each size.
struct GpcOrder {
  std::array<std::vector<u8>, kNumberedClusters.size()> of_clusters;

  /// Empty for other sizes.
  std::span<const u8> of(int cluster_size) const;
};

/// SMs of one cluster share a GPC. SMs seen only in clusters of one or two are put in the smallest GPC: an
/// H200 has a GPC where half of the SMs form no larger clusters. A size's last launch gives its order.
GpcOrder gpc_order_of(std::span<const LaunchPlaces> launches);

/// Numbers a launch's clusters by GPC: the first GPC's clusters get the lowest numbers, and so on. Where all
/// tiles are cut alike, neighbours work at one place of k in different tiles. The result is a permutation of
/// 0..clusters-1; it stays in grid order if `order` is too short. `tiles`: cluster tiles of the launch.
std::array<u8, kMostNumbered> numbers_by_gpc(std::span<const u8> order, const WorkSplit& split, double tiles);

}  // namespace sluice
