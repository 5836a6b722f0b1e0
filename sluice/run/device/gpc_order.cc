// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/device/gpc_order.h>

#include <algorithm>
#include <map>
#include <numeric>

#include <sluice/plan/dense/cluster_grid.h>

namespace sluice {
namespace {

/// Disjoint sets of SMs (union-find).
class Sets {
 public:
  u32 root(u32 sm) {
    const auto found = parents_.try_emplace(sm, sm).first;
    return found->second == sm ? sm : found->second = root(found->second);
  }
  void join(u32 a, u32 b) {
    const u32 low = std::min(root(a), root(b)), high = std::max(root(a), root(b));
    parents_[high] = low;
  }
  /// Returns the sets, keyed by each one's lowest SM.
  std::map<u32, std::vector<u32>> sets() {
    std::map<u32, std::vector<u32>> sets;
    for (const auto& [sm, parent] : std::map(parents_)) sets[root(sm)].push_back(sm);
    return sets;
  }

 private:
  std::map<u32, u32> parents_;
};

constexpr std::size_t kPair = 2;  // SMs of a TPC; a cluster of two is one TPC

std::map<u32, u8> gpcs_of_sms(std::span<const LaunchPlaces> launches) {
  Sets sets;
  for (const LaunchPlaces& launch : launches)
    for (std::size_t i = 0; i < launch.sms.size(); ++i)
      sets.join(launch.sms[i], launch.sms[i - i % static_cast<std::size_t>(launch.cluster)]);
  std::map<u32, u8> gpcs;
  std::vector<std::size_t> sizes;
  std::vector<u32> alone;
  for (const auto& [root, sms] : sets.sets()) {
    if (sms.size() <= kPair) {
      alone.insert(alone.end(), sms.begin(), sms.end());
      continue;
    }
    for (const u32 sm : sms) gpcs[sm] = static_cast<u8>(sizes.size());
    sizes.push_back(sms.size());
  }
  const auto smallest = std::min_element(sizes.begin(), sizes.end()) - sizes.begin();
  for (const u32 sm : alone) gpcs[sm] = static_cast<u8>(smallest);
  return gpcs;
}

/// Returns the index of the size in kNumberedClusters, or their number if it is not in there.
std::size_t index_of_size(int cluster_size) {
  const auto found = std::find(kNumberedClusters.begin(), kNumberedClusters.end(), cluster_size);
  return static_cast<std::size_t>(found - kNumberedClusters.begin());
}

}  // namespace

std::span<const u8> GpcOrder::of(int cluster_size) const {
  const std::size_t index = index_of_size(cluster_size);
  if (index == of_clusters.size()) return {};
  return of_clusters[index];
}

GpcOrder gpc_order_of(std::span<const LaunchPlaces> launches) {
  const std::map<u32, u8> gpcs = gpcs_of_sms(launches);
  GpcOrder order;
  for (const LaunchPlaces& launch : launches) {
    const std::size_t index = index_of_size(launch.cluster);
    if (index == order.of_clusters.size()) continue;
    std::vector<u8>& own = order.of_clusters[index];
    own.clear();
    for (std::size_t i = 0; i < launch.sms.size(); i += static_cast<std::size_t>(launch.cluster))
      own.push_back(gpcs.at(launch.sms[i]));
  }
  return order;
}

std::array<u8, kMostNumbered> numbers_by_gpc(std::span<const u8> order, const WorkSplit& split) {
  std::array<u8, kMostNumbered> numbers{};
  std::iota(numbers.begin(), numbers.end(), u8{0});
  const auto clusters = static_cast<std::size_t>(split.clusters);
  if (clusters > order.size() || clusters > numbers.size()) return numbers;
  std::vector<std::size_t> by_gpc(clusters);
  std::iota(by_gpc.begin(), by_gpc.end(), std::size_t{0});
  std::stable_sort(by_gpc.begin(), by_gpc.end(),
                   [&](std::size_t a, std::size_t b) { return order[a] < order[b]; });
  // Neighbours take the same slice of consecutive tiles.
  const auto slices = static_cast<std::size_t>(split.slices), tiles = clusters / slices;
  for (std::size_t i = 0; i < clusters; ++i)
    numbers[by_gpc[i]] = static_cast<u8>(slices > 1 ? i % tiles * slices + i / tiles : i);
  return numbers;
}

}  // namespace sluice
