// SPDX-License-Identifier: Apache-2.0
// Variants of a leading plan: other rasters and even grids, each once, and none if nothing can be gained. To
// see it fail: let smaller_grids() return the plan's own grid.
#include <gtest/gtest.h>

#include "bench/shapes.h"
#include "bench/tune/walks.h"

#include <sluice/plan/dense/cost_model.h>
#include <sluice/records.h>
#include <sluice/spec/validate.h>

namespace sluice::bench {
namespace {

Plan planned(i64 m, i64 n, i64 k, const PlanOverrides& overrides) {
  return *gemm::plan(plain_problem(m, n, k, DType::bf16), DeviceInfo{}, overrides, RecordBook());
}
std::vector<int> clusters_of(const std::vector<Plan>& plans) {
  std::vector<int> clusters;
  for (const Plan& plan : plans) clusters.push_back(plan.split.clusters);
  return clusters;
}

TEST(tune_orders, are_other_walks_of_the_same_kernel) {
  const Plan plan = *gemm::plan(plain_problem(8192, 8192, 4096, DType::bf16), DeviceInfo{}, {}, RecordBook());
  const std::vector<Plan> orders = other_orders(plan, DeviceInfo{});
  EXPECT_GE(orders.size(), 3u);
  EXPECT_LE(orders.size(), 10u);
  EXPECT_NE(orders.front().split.numbering, plan.split.numbering);
  for (const Plan& order : orders) {
    EXPECT_EQ(order.config, plan.config);
    EXPECT_FALSE(order.split == plan.split);
    const Problem product = product_of(order.problem, order.config);
    EXPECT_DOUBLE_EQ(order.estimate.total_us,
                     estimate(product, order.config, order.split, DeviceInfo{}).total_us);
  }
  EXPECT_EQ(other_orders(orders.front(), DeviceInfo{}).front().split, plan.split) << "numbered back again";
  // A single wave has them too: neighbours share requests.
  const Plan wave = *gemm::plan(plain_problem(256, 256, 4096, DType::bf16), DeviceInfo{},
                                {.tile_m = 64, .tile_n = 64, .cluster = ClusterShape{1, 1}}, RecordBook());
  EXPECT_EQ(wave.estimate.waves, 1);
  EXPECT_EQ(other_orders(wave, DeviceInfo{}).size(), 4u)
      << "the other numbering, the other walk, and bands of two either way";
  const Plan row = *gemm::plan(plain_problem(64, 4096, 4096, DType::bf16), DeviceInfo{},
                               {.tile_m = 64, .tile_n = 64, .cluster = ClusterShape{1, 1}}, RecordBook());
  EXPECT_EQ(other_orders(row, DeviceInfo{}).size(), 1u) << "a single row can only be numbered otherwise";
}

TEST(tune_grids, are_even_or_of_whole_bands) {
  PlanOverrides lone{.schedule = Schedule::cooperative,
                     .tile_m = 128,
                     .tile_n = 128,
                     .cluster = ClusterShape{1, 1},
                     .raster_group = 6};
  // 256 tiles on 132 SMs: two waves of 128. Bands of 6 rows give 132 clusters, the plan's own number.
  EXPECT_EQ(clusters_of(smaller_grids(planned(2048, 2048, 4096, lone), DeviceInfo{})), std::vector<int>{128});
  // 18 x 16 = 288 tiles take three waves, so 96 clusters are enough. Rounded up to bands of 5, they are 100.
  lone.raster_group = 5;
  EXPECT_EQ(clusters_of(smaller_grids(planned(2304, 2048, 4096, lone), DeviceInfo{})),
            (std::vector<int>{96, 100}));
  for (const Plan& grid : smaller_grids(planned(2304, 2048, 4096, lone), DeviceInfo{})) {
    EXPECT_EQ(grid.split.group, 5) << "the walk is the plan's";
    EXPECT_EQ(grid.estimate.waves, 3);
  }
  EXPECT_TRUE(smaller_grids(planned(1024, 2048, 4096, lone), DeviceInfo{}).empty()) << "one wave";
  EXPECT_TRUE(smaller_grids(planned(1536, 2816, 4096, lone), DeviceInfo{}).empty()) << "264 tiles: all full";
  EXPECT_TRUE(smaller_grids(planned(16, 4096, 4096, {.schedule = Schedule::plain}), DeviceInfo{}).empty());
}

}  // namespace
}  // namespace sluice::bench
