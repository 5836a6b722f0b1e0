// SPDX-License-Identifier: Apache-2.0
// A launch passes grid, cluster, shared memory and every field of the parameters to the driver. Tested for
// all schedules and for k = 0, alpha = 0, beta = 0, direct stores and m = 0. To see it fail: keep k_tiles
// when alpha is 0, or swap scale_a with scale_b, in launch().
#include <algorithm>
#include <set>

#include <sluice/plan/dense/numbering.h>

#include "launch_fixture.h"

namespace sluice {
namespace {

using LaunchParams = LaunchTest;

u64 address(const void* pointer) {
  return reinterpret_cast<u64>(pointer);
}

TEST_F(LaunchParams, shape_follows_config_and_split) {
  int launches = 0;
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (const ClusterShape cluster : {ClusterShape{1, 1}, {2, 1}, {1, 2}}) {
      const Problem p = small_problem();
      const gemm::Kernel kernel = prepared(
          p, {.schedule = schedule, .tile_m = 128, .tile_n = 128, .cluster = cluster, .clusters = 3});
      launched(gemm::launch(kernel, args_for(p), nullptr), launches + 1);
      const LaunchRecord& record = driver.launch(launches++);
      const u32 ctas = static_cast<u32>(cluster.m * cluster.n);
      EXPECT_EQ(record.grid_x, 3 * ctas);
      EXPECT_EQ(record.cluster_x, ctas);
      EXPECT_EQ(record.block_x, 384u);
      EXPECT_EQ(record.smem_bytes, static_cast<u32>(smem_bytes(kernel.plan().config)));
      EXPECT_EQ(record.params.grid.rows, 256 / (128 * cluster.m));
      EXPECT_EQ(record.params.grid.columns, 512 / (128 * cluster.n));
      EXPECT_EQ(record.params.grid.k_tiles, 2);
    }
}

TEST_F(LaunchParams, of_a_chain_a_plain_kernel_has_its_sm_to_itself) {
  Problem p{.m = 4, .n = 1024, .k = 1024};
  for (const Wait wait : {Wait::none, Wait::first, Wait::weights_first}) {
    const gemm::Kernel kernel = prepared(p, {.schedule = Schedule::plain,
                                             .stages = 2,
                                             .warps = 4,
                                             .cluster = ClusterShape{},
                                             .overlap = {wait, Trigger::never}});
    const int before = driver.launches();
    launched(gemm::launch(kernel, args_for(p), nullptr), before + 1);
    const i64 used = kernel.plan().smem_bytes, asked = driver.launch(before).smem_bytes;
    ASSERT_LE(driver.launch(before).grid_x, 132u);
    EXPECT_LT(2 * (used + 1024), kSmemOfSm) << "two would fit";
    EXPECT_EQ(2 * (asked + 1024) > kSmemOfSm, wait != Wait::none) << name_of(wait);
  }
}

TEST_F(LaunchParams, every_argument_arrives) {
  Problem p = full_problem();
  p.batch = 2;
  p.c.ld = 520;
  p.d.ld = 528;
  p.d.batch_stride = 528 * 300;
  const gemm::Kernel kernel = prepared(p);
  gemm::Args args = args_for(p);
  args.alpha = 0.5f;
  args.beta = -2.0f;
  const StreamHandle stream = *StreamHandle::create(device());
  launched(gemm::launch(kernel, args, stream.get()), 1);
  const LaunchRecord& record = driver.launch(0);
  const GemmParams& params = record.params;
  EXPECT_EQ(record.stream, stream.get());
  EXPECT_EQ(decode(params.map_a).address, address(args.a));
  EXPECT_EQ(decode(params.map_b).address, address(args.b));
  EXPECT_EQ(decode(params.map_d).address, address(args.d));
  EXPECT_EQ(decode(params.map_a).inner, 128u);
  EXPECT_EQ(decode(params.map_a).outer, 256u);
  EXPECT_EQ(decode(params.map_b).outer, 512u);
  EXPECT_EQ(decode(params.map_d).inner, 512u);
  EXPECT_EQ(decode(params.map_d).row_stride, 528u * 2);
  EXPECT_EQ(decode(params.map_d).batch_stride, 528u * 300 * 2);
  EXPECT_EQ(params.c, args.c);
  EXPECT_EQ(params.d, args.d);
  EXPECT_EQ(params.scale_a, args.scale_a);
  EXPECT_EQ(params.scale_b, args.scale_b);
  EXPECT_EQ(params.bias, args.bias);
  EXPECT_EQ(params.c_ld, 520);
  EXPECT_EQ(params.c_batch_stride, 520 * 256);
  EXPECT_EQ(params.d_ld, 528);
  EXPECT_EQ(params.d_batch_stride, 528 * 300);
  EXPECT_EQ(params.alpha, 0.5f);
  EXPECT_EQ(params.beta, -2.0f);
  EXPECT_EQ(params.m, 256);
  EXPECT_EQ(params.n, 512);
  EXPECT_EQ(params.grid.batch, 2);
  EXPECT_EQ(params.raster, kernel.plan().split.raster);
  EXPECT_EQ(params.raster_group, kernel.plan().split.group);
}

TEST_F(LaunchParams, swapped_operands_change_places) {
  Problem p{.m = 200, .n = 512, .k = 128, .batch = 3};
  p.d.ld = 528;
  p.epilogue.scale_a = ScaleMode::vector;
  p.epilogue.scale_b = ScaleMode::tensor;
  p.epilogue.bias = Bias::column;
  const gemm::Kernel kernel = prepared(p, {.schedule = Schedule::cooperative,
                                           .tile_m = 128,
                                           .tile_n = 104,
                                           .cluster = ClusterShape{1, 1},
                                           .swapped = true,
                                           .splits = 1});
  EXPECT_EQ(kernel.plan().problem, with_strides(p));
  gemm::Args args = args_for(p);
  args.alpha = 0.25f;
  launched(gemm::launch(kernel, args, nullptr), 1);
  const GemmParams& params = driver.launch(0).params;
  EXPECT_EQ(decode(params.map_a).address, address(args.b));
  EXPECT_EQ(decode(params.map_a).outer, 512u);
  EXPECT_EQ(decode(params.map_b).address, address(args.a));
  EXPECT_EQ(decode(params.map_b).outer, 200u);
  EXPECT_EQ(decode(params.map_b_tail).address, address(args.a)) << "200 rows are not whole tiles of 104";
  EXPECT_EQ(decode(params.map_d).address, address(args.d));
  EXPECT_EQ(decode(params.map_d).inner, 512u);
  EXPECT_EQ(decode(params.map_d).outer, 200u);
  EXPECT_EQ(decode(params.map_d).row_stride, 528u * 2);
  EXPECT_EQ(params.scale_a, args.scale_b);
  EXPECT_EQ(params.scale_b, args.scale_a);
  EXPECT_EQ(params.bias, args.bias);
  EXPECT_EQ(params.alpha, 0.25f);
  EXPECT_EQ(params.m, 512);
  EXPECT_EQ(params.n, 200);
  EXPECT_EQ(params.grid.rows, 4);
  EXPECT_EQ(params.grid.columns, 2);
  EXPECT_EQ(params.grid.batch, 3);
  EXPECT_EQ(params.d_batch_stride, 528 * 200) << "D lies as the caller's does";
}

/// With alpha = 0 no input is read, and D still gets the bias.
TEST_F(LaunchParams, swapped_operands_with_alpha_0_read_neither) {
  Problem p{.m = 200, .n = 512, .k = 128};
  p.epilogue.bias = Bias::column;
  const gemm::Kernel kernel = prepared(p, {.swapped = true});
  gemm::Args args = args_for(p);
  args.alpha = 0;
  args.a = args.b = nullptr;
  launched(gemm::launch(kernel, args, nullptr), 1);
  EXPECT_EQ(driver.launch(0).params.grid.k_tiles, 0);
  EXPECT_EQ(driver.launch(0).params.alpha, 0.0f);
}

/// The fake GPU deals clusters to nine GPCs in turn. The host queries the order only once.
TEST_F(LaunchParams, clusters_are_numbered_by_gpc) {
  const Problem p{.m = 2048, .n = 4096, .k = 128};
  int prepare_calls = 0;
  const auto numbers = [&](Numbering numbering, int launches) {
    const int before = driver.calls();
    const PlanOverrides o{.schedule = Schedule::cooperative,
                          .tile_m = 128,
                          .tile_n = 128,
                          .cluster = ClusterShape{2, 1},
                          .clusters = 64};
    Plan plan = *gemm::plan(p, device().info(), o, RecordBook());
    plan.split.numbering = numbering;
    const gemm::Kernel kernel = *gemm::prepare(device(), plan);
    prepare_calls = driver.calls() - before;
    EXPECT_EQ(kernel.plan().split.numbering, numbering);
    launched(gemm::launch(kernel, args_for(p), nullptr), launches + 1);
    const GemmParams& params = driver.launch(launches).params;
    EXPECT_EQ(params.numbering, numbering);
    return std::vector<int>(params.numbers, params.numbers + 64);
  };
  numbers(Numbering::launch, 0);
  const int unasked = prepare_calls;
  const std::vector<int> by_gpc = numbers(Numbering::gpc, 1);
  EXPECT_GT(prepare_calls, unasked + 15) << "five cluster sizes, three launches each";
  EXPECT_EQ(by_gpc, numbers(Numbering::gpc, 2));
  EXPECT_LE(prepare_calls, unasked) << "known by now";
  EXPECT_EQ(by_gpc[0], 0);
  EXPECT_EQ(by_gpc[9], 1) << "the next cluster of the first GPC";
  EXPECT_EQ(std::set<int>(by_gpc.begin(), by_gpc.end()).size(), 64u);
  EXPECT_EQ(*std::max_element(by_gpc.begin(), by_gpc.end()), 63);
}

TEST_F(LaunchParams, more_clusters_than_can_be_numbered_are_refused) {
  const Problem p{.m = 128, .n = 128, .k = 1 << 16};
  const PlanOverrides o{.schedule = Schedule::cooperative,
                        .tile_m = 128,
                        .tile_n = 128,
                        .cluster = ClusterShape{1, 1},
                        .splits = kMostNumbered + 1};
  Plan made = *gemm::plan(p, device().info(), o, RecordBook());
  EXPECT_EQ(made.split.numbering, Numbering::launch);
  EXPECT_NE(numbering_problem({.clusters = made.split.clusters, .numbering = Numbering::gpc}), "");
  made.split.numbering = Numbering::gpc;
  const Result<gemm::Kernel> refused = gemm::prepare(device(), made);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_config);
  EXPECT_NE(refused.error().message.find("145 clusters must be at most 144"), std::string::npos)
      << refused.error().message;
}

TEST_F(LaunchParams, mn_major_inputs_are_described_as_stored) {
  Problem p = small_problem();
  p.a.major = Major::mn;
  p.b.major = Major::mn;
  const gemm::Kernel kernel = prepared(p);
  launched(gemm::launch(kernel, args_for(p), nullptr), 1);
  const GemmParams& params = driver.launch(0).params;
  EXPECT_EQ(decode(params.map_a).inner, 256u);
  EXPECT_EQ(decode(params.map_a).outer, 128u);
  EXPECT_EQ(decode(params.map_b).inner, 512u);
  EXPECT_EQ(decode(params.map_b).outer, 128u);
}

TEST_F(LaunchParams, empty_results_launch_nothing_and_look_at_nothing) {
  for (const Problem& p : {Problem{.m = 0, .n = 8, .k = 8}, Problem{.m = 8, .n = 0, .k = 8},
                           Problem{.m = 8, .n = 8, .k = 8, .batch = 0}, Problem{.m = 0, .n = 0, .k = 0}}) {
    const gemm::Kernel kernel = prepared(p);
    EXPECT_EQ(kernel.registers(), 0);
    driver.make_current(1);  // the context is not needed either
    launched(gemm::launch(kernel, {}, nullptr), 0);
    launched(gemm::launch(kernel, {.a = shifted<void>(nullptr, 3), .d = shifted<void>(nullptr, 1)}, nullptr),
             0);
    launched(gemm::run(device(), p, {}, nullptr), 0);
    driver.make_current(-1);
  }
  EXPECT_EQ(driver.alive().modules, 0);
}

TEST_F(LaunchParams, k_of_zero_reads_neither_a_nor_b) {
  Problem p = full_problem();
  p.k = 0;
  const gemm::Kernel kernel = prepared(p);
  gemm::Args args = args_for(p);
  args.a = nullptr;
  args.b = shifted<void>(nullptr, 1);
  launched(gemm::launch(kernel, args, nullptr), 1);
  EXPECT_EQ(driver.launch(0).params.grid.k_tiles, 0);
  EXPECT_EQ(decode(driver.launch(0).params.map_d).address, address(args.d));
}

TEST_F(LaunchParams, alpha_of_zero_reads_neither_a_nor_b) {
  const gemm::Kernel kernel = prepared(full_problem());
  gemm::Args args = args_for(full_problem());
  args.a = nullptr;
  args.b = args.d;  // not an alias, because B is not read
  args.alpha = 0.0f;
  launched(gemm::launch(kernel, args, nullptr), 1);
  EXPECT_EQ(driver.launch(0).params.grid.k_tiles, 0);
  args = args_for(full_problem());
  launched(gemm::launch(kernel, args, nullptr), 2);
  EXPECT_EQ(driver.launch(1).params.grid.k_tiles, 2) << "the kernel itself must not have changed";
}

TEST_F(LaunchParams, beta_of_zero_does_not_read_c) {
  const gemm::Kernel kernel = prepared(full_problem());
  gemm::Args args = args_for(full_problem());
  args.beta = 0.0f;
  const void* unread[] = {nullptr, shifted(args.d, 2), &args};
  for (const void* c : unread) {
    args.c = c;
    EXPECT_TRUE(gemm::launch(kernel, args, nullptr).ok());
  }
  ASSERT_EQ(driver.launches(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(driver.launch(i).params.c, nullptr);
}

TEST_F(LaunchParams, c_without_a_residual_is_not_passed_on) {
  const gemm::Kernel kernel = prepared(small_problem());
  gemm::Args args = args_for(small_problem());
  args.c = &args;
  launched(gemm::launch(kernel, args, nullptr), 1);
  EXPECT_EQ(driver.launch(0).params.c, nullptr);
}

TEST_F(LaunchParams, c_may_be_d_itself) {
  const gemm::Kernel kernel = prepared(full_problem());
  gemm::Args args = args_for(full_problem());
  args.c = args.d;
  launched(gemm::launch(kernel, args, nullptr), 1);
  EXPECT_EQ(driver.launch(0).params.c, args.d);
}

/// With a single row the pitch is not used.
TEST_F(LaunchParams, c_of_one_row_may_be_d_with_another_pitch) {
  Problem p{.m = 1, .n = 512, .k = 128};
  p.epilogue.residual = true;
  p.c.ld = 4096;
  const gemm::Kernel kernel = prepared(p);
  gemm::Args args = args_for(p);
  args.c = args.d;
  args.beta = 1;
  launched(gemm::launch(kernel, args, nullptr), 1);
}

TEST_F(LaunchParams, direct_store_needs_no_aligned_d) {
  Problem p = small_problem();
  p.n = 509;  // TMA cannot store rows of D with this length
  const gemm::Kernel kernel = prepared(p);
  ASSERT_EQ(kernel.plan().config.store, StorePath::direct);
  gemm::Args args = args_for(p);
  args.d = shifted(args.d, 2);
  launched(gemm::launch(kernel, args, nullptr), 1);
  EXPECT_EQ(driver.launch(0).params.d, args.d);
}

TEST_F(LaunchParams, managed_memory_is_device_memory_enough) {
  const gemm::Kernel kernel = prepared(small_problem());
  gemm::Args args = args_for(small_problem());
  args.a = driver.memory(256 * 128 * 2, 1, CU_MEMORYTYPE_UNIFIED);
  launched(gemm::launch(kernel, args, nullptr), 1);
}

TEST_F(LaunchParams, column_slices_of_one_buffer_do_not_overlap) {
  // A is 256 x 128, D 256 x 512. They are column ranges of one 256 x 640 matrix.
  Problem p = small_problem();
  p.a.ld = 640;
  p.d.ld = 640;
  const gemm::Kernel kernel = prepared(p);
  gemm::Args args = args_for(p);
  void* shared = driver.memory(256 * 640 * 2);
  args.a = shared;
  args.d = shifted(shared, 128 * 2);
  launched(gemm::launch(kernel, args, nullptr), 1);
}

}  // namespace
}  // namespace sluice
