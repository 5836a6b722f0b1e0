// SPDX-License-Identifier: Apache-2.0
// Numbering of clusters by GPC: it is always a permutation, neighbours are in one GPC, and slices at the same
// place of k are adjacent. To see it fail: sort by SM number in numbers_by_gpc(), or treat each single SM as
// a GPC.
#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include <sluice/run/device/gpc_order.h>

namespace sluice {
namespace {

std::vector<int> first(const std::array<u8, kMostNumbered>& numbers, int count) {
  return {numbers.begin(), numbers.begin() + count};
}

TEST(gpc_order, sms_of_one_cluster_are_in_one_gpc) {
  // Launches with clusters of four show that SMs 0..3 and 4..7 share a GPC, the one of eight that these two
  // do. 8 and 9 occur only in pairs.
  const LaunchPlaces launches[] = {{8, {0, 1, 2, 3, 4, 5, 6, 7}},
                                   {4, {10, 11, 12, 13, 0, 1, 2, 3, 4, 5, 6, 7}},
                                   {2, {8, 9, 0, 1, 10, 11, 2, 3, 12, 13, 4, 5, 6, 7}}};
  const GpcOrder order = gpc_order_of(launches);
  const auto of = [&](int size) { return std::vector<int>(order.of(size).begin(), order.of(size).end()); };
  EXPECT_EQ(of(8), (std::vector<int>{0}));
  EXPECT_EQ(of(4), (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(of(2), (std::vector<int>{1, 0, 1, 0, 1, 0, 0})) << "8 and 9 go to the smaller one";
  EXPECT_TRUE(of(1).empty());
  EXPECT_TRUE(of(3).empty());
}

TEST(gpc_order, neighbours_share_a_gpc) {
  const u8 order[] = {2, 0, 1, 2, 0, 1, 2};
  EXPECT_EQ(first(numbers_by_gpc(order, {.clusters = 7}), 7), (std::vector<int>{4, 0, 2, 5, 1, 3, 6}));
  EXPECT_EQ(first(numbers_by_gpc(order, {.clusters = 4}), 4), (std::vector<int>{2, 0, 1, 3}));
}

TEST(gpc_order, of_parts_neighbours_are_at_one_place_of_k) {
  const u8 order[] = {1, 0, 0, 1, 0, 1};
  // Three tiles in two slices: runs 0, 2 and 4 are the first slices. GPC 0 (second, third and fifth cluster)
  // gets them.
  EXPECT_EQ(first(numbers_by_gpc(order, {.clusters = 6, .slices = 2}), 6),
            (std::vector<int>{1, 0, 2, 3, 4, 5}));
}

TEST(gpc_order, too_little_known_leaves_them_as_launched) {
  const u8 order[] = {1, 0};
  EXPECT_EQ(first(numbers_by_gpc(order, {.clusters = 3}), 3), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(first(numbers_by_gpc({}, {.clusters = 2}), 2), (std::vector<int>{0, 1}));
}

TEST(gpc_order, numbers_are_a_permutation) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const int slices = 1 + static_cast<int>(random() % 4);
    const int clusters = slices * (1 + static_cast<int>(random() % (kMostNumbered / slices)));
    std::vector<u8> order(static_cast<std::size_t>(clusters) + random() % 3);
    for (u8& gpc : order) gpc = static_cast<u8>(random() % 9);
    const std::vector<int> numbers =
        first(numbers_by_gpc(order, {.clusters = clusters, .slices = slices}), clusters);
    const std::set<int> all(numbers.begin(), numbers.end());
    ASSERT_EQ(static_cast<int>(all.size()), clusters);
    ASSERT_EQ(*all.rbegin(), clusters - 1);
  }
}

}  // namespace
}  // namespace sluice
