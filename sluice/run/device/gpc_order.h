// SPDX-License-Identifier: Apache-2.0
// Which GPC each cluster of a launch runs in, and the cluster numbers derived from that (Numbering::gpc). The
// GPU distributes clusters over its GPCs round-robin. On an idle GPU the order repeats from launch to launch,
// except for the GPC that is first. It differs between cards, because cards differ in the SMs that work. Pure
// arithmetic: locate.cc asks the GPU, gemm.cc uses the numbers.
#pragma once

#include <array>
#include <span>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/work_split.h>

namespace sluice {

/// The result of one launch with one CTA per SM: the SM of each CTA, in grid order.
struct LaunchPlaces {
  int cluster = 1;  // CTAs per cluster
  std::vector<u32> sms;
};

/// Cluster sizes, in CTAs, that can be numbered.
inline constexpr std::array<int, 4> kNumberedClusters{8, 4, 2, 1};

/// The GPC of each cluster of a launch, in grid order, per cluster size. GPCs are numbered from 0.
struct GpcOrder {
  std::array<std::vector<u8>, kNumberedClusters.size()> of_clusters;

  /// Returns the GPCs for this cluster size; empty if the size cannot be numbered.
  std::span<const u8> of(int cluster_size) const;
};

/// Derives the GPCs from launches: SMs of one cluster are in the same GPC. SMs seen only in clusters of one
/// or two are assigned to the smallest GPC: an H200 has a GPC in which half of the SMs form no larger
/// clusters. The order of a cluster size is that of its last launch.
GpcOrder gpc_order_of(std::span<const LaunchPlaces> launches);

/// Returns numbers for a launch's clusters, in grid order: the lowest numbers for the first GPC's clusters,
/// and so on. If k is split, clusters of a GPC get the same slice of different tiles. The result is a
/// permutation of 0..clusters-1; it is the identity if `order` is too short.
std::array<u8, kMostNumbered> numbers_by_gpc(std::span<const u8> order, const WorkSplit& split);

}  // namespace sluice
