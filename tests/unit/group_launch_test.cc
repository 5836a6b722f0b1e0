// SPDX-License-Identifier: Apache-2.0
// Products of groups from plan to launch, on the fake driver: what is refused, what kernel is planned, and
// what a launch passes to the driver. To see it fail: let A's map have a batch of groups, or leave the table
// out of the parameters.
#include <sluice/kernels/registry.h>
#include <sluice/plan/dense/candidates.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/dense/problem_checks.h>
#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/reference/gemm.h>
#include <sluice/run/driver/gemm_maps.h>

#include "launch_fixture.h"

namespace sluice {
namespace {

class GroupLaunch : public LaunchTest {
 protected:
  static Problem problem() {
    Problem p{.m = 96, .n = 512, .k = 256, .batch = 8};
    p.groups.kind = GroupKind::ends;
    return p;
  }
  gemm::Args args(const Problem& p) {
    gemm::Args made = args_for(p);
    made.groups = static_cast<const int*>(driver.memory(4 * p.batch));
    return made;
  }
};

TEST_F(GroupLaunch, passes_the_table_and_boxes_of_one_matrix) {
  const Problem p = problem();
  const gemm::Kernel kernel = prepared(p, {});
  const KernelConfig& config = kernel.plan().config;
  EXPECT_EQ(config.groups, (GroupConfig{GroupKind::ends, 32}));
  EXPECT_FALSE(is_swapped(config) || is_plain(config.schedule));
  EXPECT_EQ(kernel.plan().split.slices, 1);
  EXPECT_EQ(kernel.plan().workspace_bytes, 0);
  EXPECT_NE(describe(kernel.plan()).find("m 96 n 512 k 256 in 8 groups by ends pitch 1"), std::string::npos)
      << describe(kernel.plan());
  const gemm::Args given = args(p);
  launched(gemm::launch(kernel, given, nullptr), 1);
  const Problem checked = *check_problem(p);
  EXPECT_EQ(a_map_shape(config, checked).batch, 1);
  EXPECT_EQ(d_map_shape(config, checked).batch, 1);
  EXPECT_EQ(b_map_shape(config, checked).batch, 8);
  EXPECT_EQ(a_tail_shape(config, checked).box_outer, small_box_rows(config.tile.m / config.cluster.n));
  EXPECT_TRUE(has_tail_a(config, checked));
  const GroupedParams& params = driver.launch(0).grouped;
  EXPECT_EQ(params.group_numbers, given.groups);
  EXPECT_EQ(params.group_pitch, 1);
  EXPECT_EQ(params.group_total, 96);
  EXPECT_EQ(params.grid.batch, 8);
  EXPECT_EQ(params.d_batch_stride, 0);
}

TEST_F(GroupLaunch, has_room_for_few_sizes_of_tables) {
  const std::pair<int, int> rooms[] = {{1, 32},    {32, 32},   {33, 128},   {128, 128},
                                       {129, 512}, {512, 512}, {513, 1024}, {1024, 1024}};
  Problem p = problem();
  for (const auto& [groups, most] : rooms) {
    p.batch = groups;
    EXPECT_EQ(group_config(p).most, most) << groups;
  }
}

/// To see it fail, let a predicate of group_rules.h return false, or choose_split() rank all walks.
TEST_F(GroupLaunch, plans_follow_the_rules_of_groups_unless_asked) {
  const Epilogue blocks{.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
  for (const i64 rows : {8, 32, 512, 1024, 8192, 32768})
    for (const i64 n : {512, 4096, 7168}) {
      Problem p{
          .m = rows, .n = n, .k = 2048, .batch = 8, .a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
      p.groups.kind = GroupKind::ends;
      p.epilogue = blocks;
      const Result<Plan> by_block = gemm::plan(p, DeviceInfo{});
      ASSERT_TRUE(by_block) << by_block.error().message;
      const KernelConfig& c = by_block->config;
      EXPECT_TRUE(c.tile.n % 128 == 0 || 128 % c.tile.n == 0) << describe(*by_block);
      EXPECT_EQ(c.cluster.n * c.cluster.k, 1) << describe(*by_block);
      EXPECT_TRUE(by_block->split.raster == Raster::along_m && by_block->split.group == 8)
          << describe(*by_block);
      p.a.type = p.b.type = DType::bf16, p.epilogue = {};
      const Result<Plan> unscaled = gemm::plan(p, DeviceInfo{});
      ASSERT_TRUE(unscaled);
      EXPECT_TRUE(waves(unscaled->config) == 1 || unscaled->config.tile.n % 64 == 0) << describe(*unscaled);
    }
  Problem p{
      .m = 4096, .n = 4096, .k = 2048, .batch = 8, .a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
  p.groups.kind = GroupKind::ends;
  p.epilogue = blocks;
  const Result<Plan> asked = gemm::plan(p, DeviceInfo{}, {.tile_n = 192, .raster = Raster::along_n});
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(asked->config.tile.n, 192);
  EXPECT_EQ(asked->split.raster, Raster::along_n);
  const Result<Plan> pairs = gemm::plan(p, DeviceInfo{}, {.cluster = ClusterShape{1, 2, 1}});
  ASSERT_TRUE(pairs) << pairs.error().message;
  EXPECT_EQ(pairs->config.cluster.n, 2);
}

Problem sums_problem() {
  Problem p{.m = 512, .n = 256, .k = 4000, .batch = 8, .a = {.major = Major::mn}, .b = {.major = Major::mn}};
  p.d.type = DType::fp32;
  p.groups = {GroupKind::along_k, 16};
  return p;
}

TEST_F(GroupLaunch, along_k_reads_one_matrix_each_and_writes_one_per_group) {
  const Problem p = sums_problem();
  const gemm::Kernel kernel = prepared(p, {});
  const KernelConfig& config = kernel.plan().config;
  EXPECT_EQ(config.groups, (GroupConfig{GroupKind::along_k, 32}));
  EXPECT_EQ(kernel.plan().split.slices, 1) << "sizes along k are on the device";
  const gemm::Args given = args(p);
  launched(gemm::launch(kernel, given, nullptr), 1);
  const Problem checked = *check_problem(p);
  EXPECT_EQ(a_map_shape(config, checked).batch, 1);
  EXPECT_EQ(b_map_shape(config, checked).batch, 1);
  EXPECT_EQ(d_map_shape(config, checked).batch, 8);
  const GroupedParams& params = driver.launch(0).grouped;
  EXPECT_EQ(params.group_numbers, given.groups);
  EXPECT_EQ(params.group_pitch, 16);
  EXPECT_EQ(params.group_total, 4000);
  EXPECT_EQ(expected(p).k, 500);
  EXPECT_EQ(expected(p).batch, 8);
}

Problem slots_problem() {
  Problem p{
      .m = 16, .n = 512, .k = 1024, .batch = 128, .a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
  p.groups = {GroupKind::slots, 8};
  p.epilogue = {.scale_a = ScaleMode::block,
                .scale_b = ScaleMode::block,
                .activation = Activation::silu,
                .gated = true};
  return p;
}

/// To see it fail, take the table's size from the groups, or launch one row of CTAs per group.
TEST_F(GroupLaunch, by_slots_has_a_row_of_ctas_for_each) {
  const Problem p = slots_problem();
  EXPECT_EQ(table_size(p), 16);
  EXPECT_EQ(a_rows(p), 2);
  EXPECT_EQ(scale_a_count(*check_problem(p)), 2 * 8);
  const gemm::Kernel kernel = prepared(p, {});
  const KernelConfig& config = kernel.plan().config;
  EXPECT_EQ(config.schedule, Schedule::plain);
  EXPECT_EQ(config.tile.m, 8);
  refused(gemm::launch(kernel, args_for(p), nullptr), ErrorCode::invalid_pointer, "groups");
  gemm::Args given = args_for(p);
  given.groups = static_cast<const int*>(driver.memory(4 * p.m));
  launched(gemm::launch(kernel, given, nullptr), 1);
  EXPECT_EQ(driver.launch(0).grid_y, 16u);
  const GroupedParams& params = driver.launch(0).grouped;
  EXPECT_EQ(params.group_numbers, given.groups);
  EXPECT_EQ(params.group_pitch, 8);
  EXPECT_EQ(params.grid.batch, 128);
  const auto all = gemm::candidates(p, device().info());
  ASSERT_TRUE(all.ok());
  for (const Plan& plan : *all) {
    EXPECT_EQ(plan.config.schedule, Schedule::plain) << short_name(plan.config);
    const auto again = dense_plan_of(choice_of(plan), *check_problem(p), device().info());
    EXPECT_TRUE(again && again->config == plan.config) << "a record gives the plan back";
  }
  EXPECT_TRUE(gemm::race(device(), p, 3).ok());
}

TEST_F(GroupLaunch, by_slots_may_be_empty) {
  for (i64 Problem::*size : {&Problem::m, &Problem::n, &Problem::batch, &Problem::k}) {
    Problem p = slots_problem();
    p.*size = 0;
    const Result<Plan> plan = gemm::plan(p, device().info());
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(even_table(p).size(), static_cast<size_t>(p.m));
  }
  Problem p = slots_problem();
  p.groups.pitch = 0;
  refused(gemm::run(device(), p, args_for(slots_problem()), nullptr), ErrorCode::invalid_argument,
          "groups.pitch = 0");
}

TEST_F(GroupLaunch, by_slots_that_cannot_be_is_refused) {
  const auto refuses = [](const Problem& p, ErrorCode code, const std::string& words) {
    const Result<Plan> plan = gemm::plan(p, DeviceInfo{});
    ASSERT_FALSE(plan.ok()) << words;
    EXPECT_EQ(plan.error().code, code) << plan.error().message;
    EXPECT_NE(plan.error().message.find(words), std::string::npos) << plan.error().message;
  };
  Problem p = slots_problem();
  p.m = 17;
  refuses(p, ErrorCode::invalid_size, "m = 17 slots must be a multiple of groups.pitch = 8");
  p = slots_problem(), p.m = 8 * 8192;
  refuses(p, ErrorCode::invalid_size, "65536 slots must be at most 65535");
  p = slots_problem(), p.d.type = DType::e4m3, p.epilogue.scale_d = ScaleMode::block;
  refuses(p, ErrorCode::invalid_type, "quantise D in a kernel of its own");
  p = slots_problem(), p.epilogue.gated = false, p.epilogue.row_factors = true;
  refuses(p, ErrorCode::invalid_type, "row_factors");
  p = {.m = 8, .n = 64, .k = 64, .batch = 4, .b = {.major = Major::mn}};
  p.groups.kind = GroupKind::slots;
  refuses(p, ErrorCode::invalid_type, "B is mn-major");
  for (const PlanOverrides& asked : {PlanOverrides{.schedule = Schedule::cooperative},
                                     {.schedule = Schedule::plain_wgmma},
                                     {.splits = 2},
                                     {.swapped = true},
                                     {.tile_m = 16}})
    EXPECT_FALSE(gemm::plan(slots_problem(), DeviceInfo{}, asked).ok());
}

TEST_F(GroupLaunch, needs_a_table) {
  const gemm::Kernel kernel = prepared(problem(), {});
  refused(gemm::launch(kernel, args_for(problem()), nullptr), ErrorCode::invalid_pointer, "groups");
}

TEST_F(GroupLaunch, sums_in_one_order_whatever_the_number_of_rows) {
  for (const i64 rows : {1, 8, 100, 5000})
    for (const DType type : {DType::bf16, DType::e4m3}) {
      Problem p = problem();
      p.m = rows, p.n = 64, p.k = 8192, p.a.type = p.b.type = type;
      const auto ranked = gemm::candidates(p, device().info());
      ASSERT_TRUE(ranked.ok());
      for (const Plan& plan : *ranked) {
        EXPECT_EQ(plan.config.cluster.k, 1) << short_name(plan.config);
        EXPECT_EQ(plan.split.slices, 1);
      }
    }
  const Result<Plan> asked = gemm::plan(problem(), device().info(), {.cluster = ClusterShape{1, 1, 2}});
  ASSERT_TRUE(asked.ok()) << asked.error().message;
  EXPECT_EQ(asked->config.cluster.k, 2) << "callers may ask for it";
  EXPECT_FALSE(dense_plan_of(choice_of(*asked), *check_problem(problem()), device().info()));
}

TEST_F(GroupLaunch, never_takes_more_clusters_than_tiles) {
  Problem p = problem();
  p.m = 2, p.n = 64;
  const gemm::Kernel kernel = prepared(p, {});
  EXPECT_LE(kernel.plan().split.clusters, 2 * grid_columns(p, kernel.plan().config))
      << "two rows are in two groups at most";
}

TEST_F(GroupLaunch, estimates_the_groups_that_rows_are_likely_to_reach) {
  Problem p = problem();
  p.batch = 256, p.m = 8;
  EXPECT_EQ(expected(p).batch, 8);
  EXPECT_EQ(expected(p).m, 1);
  p.m = 256;
  EXPECT_EQ(expected(p).batch, 162);  // 256 (1 - 1 / e)
  p.m = 32768;
  EXPECT_EQ(expected(p).batch, 256);
  EXPECT_EQ(expected(p).m, 128);
  EXPECT_FALSE(has_groups(expected(p)));
  p.m = 0;
  EXPECT_EQ(expected(p).m, 0);
}

TEST_F(GroupLaunch, may_be_raced_with_groups_of_equal_sizes) {
  for (const Problem& p : {problem(), sums_problem()}) EXPECT_TRUE(gemm::race(device(), p, 3).ok());
  for (const Groups kind : {Groups{GroupKind::ends, 1}, {GroupKind::ends, 16}, {GroupKind::counts, 20}})
    for (const i64 total : {0, 7, 96, 1000}) {
      Problem p = problem();
      p.m = total, p.groups = kind;
      const std::vector<int> table = even_table(p);
      i64 rows = 0, most = 0;
      for (const GroupRows& each : rows_of_groups(p, table.data())) {
        rows += each.end - each.begin;
        most = std::max<i64>(most, each.end - each.begin);
      }
      EXPECT_LE(most, ceil_div(total, p.batch) + kind.pitch);
      EXPECT_EQ(rows, kind.kind == GroupKind::counts ? std::min<i64>(total, 8 * 20) : total);
    }
}

TEST_F(GroupLaunch, that_cannot_be_is_refused) {
  const auto refuses = [](Problem p, ErrorCode code, const std::string& words) {
    const Result<Plan> plan = gemm::plan(p, DeviceInfo{});
    ASSERT_FALSE(plan.ok()) << words;
    EXPECT_EQ(plan.error().code, code) << plan.error().message;
    EXPECT_NE(plan.error().message.find(words), std::string::npos) << plan.error().message;
  };
  Problem p = problem();
  p.batch = kMostGroups + 1;
  refuses(p, ErrorCode::invalid_size, "at most 1024");
  p = problem(), p.groups.pitch = 0;
  refuses(p, ErrorCode::invalid_argument, "groups.pitch = 0");
  p = problem(), p.groups.kind = GroupKind::none, p.groups.pitch = 5;
  refuses(p, ErrorCode::invalid_argument, "leave the pitch out");
  p = problem(), p.a.major = Major::mn;
  refuses(p, ErrorCode::invalid_type, "k-major");
  p = problem(), p.d.type = DType::fp32, p.epilogue.update = Update::add;
  refuses(p, ErrorCode::invalid_type, "overwritten");
  p = problem(), p.a.ld = 257;
  refuses(p, ErrorCode::misaligned, "a.ld");
  p = sums_problem(), p.b.major = Major::k;
  refuses(p, ErrorCode::invalid_type, "B is k-major");
  p = sums_problem(), p.epilogue.scale_b = ScaleMode::vector;
  refuses(p, ErrorCode::invalid_type, "no vectors of scales");
  p = sums_problem(), p.a = {.type = DType::e4m3}, p.b = p.a;
  refuses(p, ErrorCode::invalid_type, "bf16 or fp16");
  EXPECT_FALSE(gemm::plan(sums_problem(), DeviceInfo{}, {.splits = 2}).ok());
  EXPECT_FALSE(gemm::plan(problem(), DeviceInfo{}, {.swapped = true}).ok());
  EXPECT_FALSE(gemm::plan(problem(), DeviceInfo{}, {.schedule = Schedule::plain}).ok());
  EXPECT_FALSE(gemm::plan(problem(), DeviceInfo{}, {.splits = 2}).ok());
}

}  // namespace
}  // namespace sluice
