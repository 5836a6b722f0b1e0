// SPDX-License-Identifier: Apache-2.0
// Candidates are possible, ranked and deterministic, and obey overrides. To see it fail: remove the
// stable_sort (the order test fails), or `unlisted_bases` (the test of unlisted tiles fails).
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <sluice/conv.h>
#include <sluice/kernels/registry.h>
#include <sluice/plan/dense/cost_model.h>
#include <sluice/plan/dense/slices.h>
#include <sluice/records.h>
#include <sluice/run/ops/gemm.h>

namespace sluice {
namespace {

const DeviceInfo kH200{};

Problem square(i64 size) {
  return {.m = size, .n = size, .k = size};
}

/// Returns by value: a reference into the Result would dangle in a range-based for loop.
std::vector<Plan> candidates(const Problem& p, const DeviceInfo& device, const PlanOverrides& o = {}) {
  Result<std::vector<Plan>> plans = gemm::candidates(p, device, o);
  EXPECT_TRUE(plans.ok()) << plans.error().message;
  return plans.ok() ? *plans : std::vector<Plan>{};
}

Plan planned(const Problem& p, const PlanOverrides& o = {}) {
  const Result<Plan> plan = gemm::plan(p, kH200, o, RecordBook());
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.ok() ? *plan : Plan{};
}

void expect_refused(const PlanOverrides& overrides, std::initializer_list<const char*> words,
                    const Problem& p = square(4096)) {
  const Result<Plan> plan = gemm::plan(p, kH200, overrides, RecordBook());
  ASSERT_FALSE(plan.ok()) << describe(*plan);
  EXPECT_EQ(plan.error().code, ErrorCode::invalid_config) << plan.error().message;
  for (const char* word : words)
    EXPECT_NE(plan.error().message.find(word), std::string::npos)
        << plan.error().message << "\nhas no \"" << word << '"';
}

Problem random_problem(std::mt19937& random) {
  const DType inputs[] = {DType::bf16, DType::fp16, DType::e4m3, DType::e5m2};
  const DType outputs[] = {DType::bf16, DType::fp16, DType::fp32, DType::e4m3};
  const auto size = [&] { return static_cast<i64>(random() % (1u << random() % 15)); };
  Problem p{.m = size(), .n = size(), .k = size() / 16 * 16, .batch = 1 + size() % 4};
  p.a.type = p.b.type = inputs[random() % 4];
  p.d.type = outputs[random() % 4];
  if (is_16bit(p.a.type) && random() % 2 == 0) p.m = p.m / 8 * 8, p.a.major = Major::mn;
  if (is_16bit(p.a.type) && random() % 2 == 0) p.n = p.n / 8 * 8, p.b.major = Major::mn;
  p.accumulate = random() % 2 == 0 ? Accumulate::promoted : Accumulate::fast;
  p.epilogue.residual = random() % 2 == 0;
  p.epilogue.activation = static_cast<Activation>(random() % 4);
  if (p.d.type == DType::fp32 && random() % 2 == 0) {
    p.epilogue = {.update = Update::add};
    p.deterministic = random() % 2 == 0;
  }
  return p;
}

/// Numbering by GPC changes the raster that the ranking assumed, so the estimate must be computed again. To
/// see it fail: leave the second estimate out of ranked(). The first pick then says 190.0 us and 206 MB of
/// HBM, but its raster takes 190.5 us and 273 MB.
TEST(planner_candidates, say_what_the_model_thinks_of_the_walk_that_runs) {
  int numbered = 0;
  for (const i64 n : {2048, 8192})
    for (const Plan& plan : candidates({.m = 32768, .n = n, .k = 1024}, kH200)) {
      if (is_plain(plan.config.schedule)) continue;
      const Problem product = product_of(plan.problem, plan.config);
      ASSERT_DOUBLE_EQ(plan.estimate.total_us, estimate(product, plan.config, plan.split, kH200).total_us)
          << short_name(plan.config);
      ASSERT_DOUBLE_EQ(plan.estimate.hbm_us, estimate(product, plan.config, plan.split, kH200).hbm_us);
      numbered += plan.split.numbering == Numbering::gpc ? 1 : 0;
    }
  EXPECT_GT(numbered, 10);
}

TEST(planner_candidates, number_by_gpc_splits_into_many_slices) {
  PlanOverrides o{.schedule = Schedule::cooperative,
                  .tile_m = 128,
                  .tile_n = 256,
                  .cluster = ClusterShape{2, 1},
                  .splits = 5};
  EXPECT_EQ(planned({.m = 768, .n = 512, .k = 65536}, o).split.numbering, Numbering::gpc);
  o.splits = 2;
  EXPECT_EQ(planned({.m = 768, .n = 512, .k = 65536}, o).split.numbering, Numbering::launch);
}

TEST(planner_candidates, are_valid_launchable_and_best_first_for_any_problem) {
  std::mt19937 random(5);
  for (int i = 0; i < 400; ++i) {
    const Problem p = random_problem(random);
    const Result<std::vector<Plan>> plans = gemm::candidates(p, kH200);
    ASSERT_TRUE(plans.ok()) << plans.error().message << "\n" << to_string(p);
    ASSERT_FALSE(plans->empty());
    double last = 0;
    for (const Plan& plan : *plans) {
      ASSERT_EQ(validate(plan.config), nullptr);
      const Problem product = product_of(plan.problem, plan.config);
      ASSERT_EQ(plan.config.a, product.a.type);
      if (plan.split.numbering == Numbering::launch) {  // the others were ranked with another raster
        ASSERT_GE(plan.estimate.total_us, last);
        last = plan.estimate.total_us;
      }
      if (is_plain(plan.config.schedule)) continue;  // tested in planner_plain_test.cc
      ASSERT_EQ(plan.config.promotes, p.accumulate == Accumulate::promoted && is_fp8(p.a.type));
      const TileGrid grid = tile_grid(plan.config, static_cast<int>(product.m), static_cast<int>(product.n),
                                      static_cast<int>(product.k), static_cast<int>(product.batch));
      ASSERT_GE(plan.split.group, 1);
      ASSERT_GE(plan.split.clusters, 1);
      const int tiles = cluster_tiles(grid), slices = plan.split.slices;
      ASSERT_LE(plan.split.clusters, std::max(tiles * slices, 1)) << "clusters with no work";
      ASSERT_LE(plan.split.clusters * cluster_size(plan.config), kH200.sm_count);
      ASSERT_EQ(plan.estimate.waves,
                slices > 1 ? 1 : (tiles + plan.split.clusters - 1) / plan.split.clusters);
      const auto combines = combines_of_parts(p);
      const bool listed = std::find(combines.begin(), combines.end(), plan.config.combine) != combines.end();
      ASSERT_EQ(listed, slices > 1);
      ASSERT_TRUE(listed || plan.config.combine == Combine::none);
      ASSERT_EQ(slices_problem(product, plan.config, plan.split), "");
      ASSERT_EQ(plan.workspace_bytes, workspace_bytes(plan.config, plan.split));
      ASSERT_LE(plan.workspace_bytes, kWorkspaceLimit);
    }
  }
}

/// Returns a convolution with a 3 x 3 filter on 28 x 28 pixels.
Problem conv_problem(ConvOp op, i64 images, i64 channels) {
  const Conv v{.op = op,
               .images = images,
               .channels = channels,
               .filters = channels,
               .size = {28, 28, 1},
               .filter = {3, 3, 1},
               .padding = {1, 1, 0},
               .padding_after = {1, 1, 0}};
  return *conv::problem(v, DType::bf16, DType::bf16);
}

/// How this can fail: without may_win() in splits_along_k(), lone CTAs take parts.
TEST(planner_candidates, of_convolutions_leave_out_what_never_won_unless_asked) {
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}) {
    int parts = 0, along_k = 0;
    const Problem p = conv_problem(op, 2, 256);
    for (const Plan& plan : candidates(p, kH200)) {
      const KernelConfig& c = plan.config;
      parts += plan.split.slices > 1;
      along_k += c.cluster.k > 1;
      ASSERT_TRUE(plan.split.slices == 1 || (c.combine == Combine::separate && multicasts(c)))
          << short_name(c);
      ASSERT_LE(c.cluster.k, op == ConvOp::wgrad ? 4 : 1) << short_name(c);
    }
    EXPECT_GT(parts, 0);
    EXPECT_EQ(along_k > 0, op == ConvOp::wgrad);
    EXPECT_EQ(planned(p, {.splits = 2, .combine = Combine::last_arriver}).config.combine,
              Combine::last_arriver);
    EXPECT_EQ(planned(p, {.cluster = ClusterShape{1, 1, 8}}).config.cluster.k, 8);
    EXPECT_GT(planned(p, {.cluster = ClusterShape{1, 1}, .splits = 2}).split.slices, 1);
  }
}

TEST(planner_candidates, are_the_same_every_time_and_begin_with_the_plan) {
  std::mt19937 random(6);
  for (int i = 0; i < 50; ++i) {
    const Problem p = random_problem(random);
    const std::vector<Plan> first = candidates(p, kH200), second = candidates(p, kH200);
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t j = 0; j < first.size(); ++j) ASSERT_EQ(describe(first[j]), describe(second[j]));
    const Plan plan = planned(p);
    EXPECT_EQ(plan.config, first[0].config);
    EXPECT_EQ(plan.split, first[0].split);
    for (std::size_t j = 0; j < first.size(); ++j)
      for (std::size_t l = 0; l < j; ++l)
        ASSERT_FALSE(first[j].config == first[l].config && first[j].split == first[l].split)
            << "twice: " << short_name(first[j].config);
  }
}

TEST(planner_candidates, equal_estimates_keep_the_order_of_the_space) {
  const std::vector<Plan> plans = candidates({.m = 0, .n = 64, .k = 64}, kH200);
  ASSERT_GT(plans.size(), 3u);
  EXPECT_EQ(short_name(plans[0].config), "ping_pong 64x8x64 s16 c1x1 bf16");
  EXPECT_EQ(short_name(plans.back().config), "cooperative 256x208x64 s3 c2x4 bf16");
  for (const Plan& plan : plans) EXPECT_EQ(plan.estimate, Estimate{});
}

/// WGMMA and TMA are slow with an MN-major B whose tile width is not a multiple of a block. Overrides can
/// still choose such a width.
TEST(planner_candidates, widths_of_an_mn_major_b_are_whole_blocks_or_shared_halves) {
  Problem p{.m = 768, .n = 3072, .k = 65536};
  p.a.major = p.b.major = Major::mn;
  std::set<int> alone, shared;
  for (const Plan& plan : candidates(p, kH200))
    (plan.config.cluster.m > 1 ? shared : alone).insert(plan.config.tile.n);
  EXPECT_EQ(alone, (std::set<int>{64, 128, 192, 256}));
  EXPECT_EQ(shared, (std::set<int>{32, 64, 96, 128, 160, 192, 224, 256}));
  p.n = 32;  // with a single tile, no other tile begins in the middle of a line
  alone.clear();
  for (const Plan& plan : candidates(p, kH200))
    if (plan.config.cluster.m == 1) alone.insert(plan.config.tile.n);
  EXPECT_TRUE(alone.contains(32) && alone.contains(96));
  p.n = 3072;
  EXPECT_EQ(planned(p, {.tile_n = 144}).config.tile.n, 144);
}

/// The eight CTAs of a cluster share both operands. One cluster covers a small D and requests each byte of L2
/// once.
TEST(planner_candidates, clusters_of_eight_are_tried_within_their_wave) {
  bool tried = false;
  for (const Plan& plan : candidates({.m = 256, .n = 256, .k = 131072}, kH200)) {
    if (cluster_size(plan.config) != 8 || plan.config.cluster.k != 1) continue;
    tried = true;
    EXPECT_LE(plan.split.clusters, kH200.max_clusters_of_8);
  }
  EXPECT_TRUE(tried);
}

/// 192 rows fill only three quarters of two tiles of 128 rows. As columns, they fill a tile.
TEST(planner_candidates, operands_are_swapped_where_rows_would_be_empty) {
  const Problem p{.m = 192, .n = 16384, .k = 4096};
  const Plan plan = planned(p);
  EXPECT_TRUE(is_swapped(plan.config)) << short_name(plan.config);
  EXPECT_EQ(plan.problem, with_strides(p)) << "the caller's";
  EXPECT_LT(plan.estimate.total_us, planned(p, {.swapped = false}).estimate.total_us);
  for (const Plan& other : candidates(p, kH200, {.swapped = true})) {
    EXPECT_TRUE(is_swapped(other.config));
    EXPECT_TRUE(gemm::sealed(other, kH200).ok()) << short_name(other.config);
  }
  // Overrides of tile or cluster without `swapped` refer to operands that are not swapped. Few rows are not
  // swapped either.
  for (const Plan& other : candidates(p, kH200, {.tile_m = 128})) EXPECT_FALSE(is_swapped(other.config));
  for (const Plan& other : candidates({.m = 64, .n = 16384, .k = 4096}, kH200))
    EXPECT_FALSE(is_swapped(other.config));
}

bool has_tile(const std::vector<Plan>& plans, const BaseConfig& base, bool swapped) {
  return std::any_of(plans.begin(), plans.end(), [&](const Plan& plan) {
    const KernelConfig& c = plan.config;
    return BaseConfig{c.schedule, c.tile.m, c.tile.n} == base && is_swapped(c) == swapped;
  });
}

/// With 1216 columns and 1839 rows, neither tiles of 128 nor listed tiles fill 132 SMs.
TEST(planner_candidates, widths_fit_whole_waves) {
  const Problem p{.m = 1839, .n = 1216, .k = 6400};
  const std::vector<Plan> plans = candidates(p, kH200);
  EXPECT_TRUE(has_tile(plans, {Schedule::cooperative, 128, 144}, true)) << "10 x 13 tiles";
  EXPECT_TRUE(has_tile(plans, {Schedule::cooperative, 256, 80}, false)) << "8 x 16 tiles";
  EXPECT_FALSE(has_tile(plans, {Schedule::cooperative, 128, 136}, true)) << "140 tiles: a second wave of 8";
  EXPECT_EQ(short_name(planned(p).config), "cooperative 128x144x64 s5 c1x1 bf16 swapped");

  // Widths are multiples of 16 if D is not transposed, and of 32 with block scales. None is too narrow.
  EXPECT_TRUE(has_tile(candidates({.m = 232, .n = 8592, .k = 4096}, kH200), {Schedule::cooperative, 128, 144},
                       false));
  Problem scaled{.m = 232, .n = 8592, .k = 4096, .a = {DType::e4m3}, .b = {DType::e4m3}};
  scaled.accumulate = Accumulate::promoted;
  scaled.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
  for (const Plan& plan : candidates(scaled, kH200)) EXPECT_EQ(plan.config.tile.n % 32, 0);
  for (const Plan& plan : candidates({.m = 1100, .n = 576, .k = 4096}, kH200))
    if (is_swapped(plan.config)) {
      EXPECT_GE(plan.config.tile.n, 64) << short_name(plan.config);
    }
  // Widths are multiples of 32 for MN-major operands. All matrices of a batch fill waves together. An empty
  // problem has no waves.
  for (const Plan& plan : candidates({.m = 232, .n = 8592, .k = 4096, .b = {.major = Major::mn}}, kH200))
    EXPECT_EQ(plan.config.tile.n % (is_swapped(plan.config) ? 8 : 32), 0) << short_name(plan.config);
  EXPECT_TRUE(has_tile(candidates({.m = 232, .n = 4288, .k = 4096, .batch = 2}, kH200),
                       {Schedule::cooperative, 128, 144}, false));
  for (const Problem& nothing : {Problem{.m = 0, .n = 1216, .k = 64}, Problem{.m = 1839, .n = 0, .k = 64}})
    EXPECT_FALSE(candidates(nothing, kH200).empty());
  // The override `swapped` searches the whole space of swapped operands, whatever the sizes.
  EXPECT_TRUE(has_tile(candidates({.m = 2048, .n = 65536, .k = 4096}, kH200, {.swapped = true}),
                       {Schedule::cooperative, 128, 256}, true));
  // With many waves, listed widths leave few SMs idle, so no width is fitted.
  EXPECT_FALSE(has_tile(candidates({.m = 8192, .n = 8192, .k = 4096}, kH200),
                        {Schedule::cooperative, 128, 144}, true));
}

TEST(planner_candidates, what_swapped_operands_do_not_take_is_planned_without) {
  Problem p{.m = 192, .n = 16384, .k = 4096};
  p.epilogue.bias = Bias::column;
  EXPECT_EQ(planned(p, {.swapped = true}).config.epilogue.bias, Bias::row);
  p.epilogue.residual = true;
  for (const Plan& plan : candidates(p, kH200)) EXPECT_FALSE(is_swapped(plan.config));
  const Result<Plan> asked = gemm::plan(p, kH200, {.swapped = true});
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, ErrorCode::invalid_config);
  EXPECT_NE(asked.error().message.find("swapped operands take no residual and no gate"), std::string::npos)
      << asked.error().message;
  p = {.m = 192, .n = 16380, .k = 4096};  // TMA cannot store rows of D with this length
  for (const Plan& plan : candidates(p, kH200)) EXPECT_FALSE(is_swapped(plan.config));
  const Result<Plan> unaligned = gemm::plan(p, kH200, {.swapped = true});
  ASSERT_FALSE(unaligned);
  EXPECT_NE(unaligned.error().message.find("swapped = true: a row of D is not a multiple of 16 bytes"),
            std::string::npos)
      << unaligned.error().message;
  for (const DType d : {DType::fp32, DType::e4m3}) {
    p = {.m = 192, .n = 16384, .k = 4096, .d = {.type = d}};
    for (const Plan& plan : candidates(p, kH200)) EXPECT_FALSE(is_swapped(plan.config)) << name_of(d);
  }
}

TEST(planner_candidates, what_is_asked_below_its_range_is_refused) {
  expect_refused({.tile_m = 0, .tile_n = 64}, {"tile_m = 0"}, {.m = 16, .n = 4096, .k = 4096});
  expect_refused({.tile_m = 64, .tile_n = -8}, {"tile_n = -8"});
  expect_refused({.cluster = ClusterShape{1, 1, 0}}, {"cluster_k = 0", "in 1..8"});
  expect_refused({.cluster = ClusterShape{0, 1}}, {"cluster_m = 0"});
  expect_refused({.splits = -5}, {"splits = -5", "at least 1"});
}

TEST(planner_candidates, a_tile_has_no_more_slices_than_k_tiles) {
  const Problem p{.m = 64, .n = 64, .k = 512};
  PlanOverrides o{.schedule = Schedule::ping_pong,
                  .tile_m = 64,
                  .tile_n = 64,
                  .cluster = ClusterShape{1, 1},
                  .splits = 8};
  EXPECT_EQ(planned(p, o).split.clusters, 8);
  o.splits = 9;
  expect_refused(o, {"split.slices = 9", "1..8"}, p);
}

/// prepare() accepts every plan.
TEST(planner_candidates, plans_can_be_prepared) {
  expect_refused({.raster_group = 2147483647}, {"raster_group = 2147483647"},
                 {.m = 256, .n = 4096, .k = 4096});
  Problem added{.m = 3840, .n = 128, .k = 2147479552};
  added.d.type = DType::fp32;
  added.epilogue.update = Update::add;
  added.deterministic = false;
  expect_refused({.tile_m = 64, .tile_n = 64, .cluster = ClusterShape{2, 2}, .splits = 33554368},
                 {"less than 2^31 CTAs"}, added);
}

/// Plain schedules, which are for few rows, cannot swap operands, so the override gets another schedule.
TEST(planner_candidates, few_rows_are_swapped_if_asked) {
  for (const i64 m : {16, 96}) {
    const Problem p{.m = m, .n = 4096, .k = 4096};
    for (const Plan& plan : candidates(p, kH200, {.swapped = true}))
      EXPECT_TRUE(is_swapped(plan.config)) << m;
    const Result<Plan> plain = gemm::plan(p, kH200, {.schedule = Schedule::plain, .swapped = true});
    ASSERT_FALSE(plain);
    EXPECT_NE(plain.error().message.find("plain schedules do not swap operands"), std::string::npos)
        << plain.error().message;
    Problem gated = p;
    gated.epilogue.gated = true;
    EXPECT_FALSE(gemm::plan(gated, kH200, {.swapped = true})) << m;
  }
}

TEST(planner_candidates, overrides_are_obeyed_and_the_rest_is_still_chosen) {
  PlanOverrides o;
  o.schedule = Schedule::ping_pong;
  for (const Plan& plan : candidates(square(4096), kH200, o))
    EXPECT_EQ(plan.config.schedule, Schedule::ping_pong);
  o = {};
  o.tile_m = 256;
  o.stages = 2;
  o.cluster = ClusterShape{1, 2};
  for (const Plan& plan : candidates(square(4096), kH200, o)) {
    EXPECT_EQ(plan.config.tile.m, 256);
    EXPECT_EQ(plan.config.stages, 2);
    EXPECT_EQ(plan.config.cluster, (ClusterShape{1, 2}));
  }
  o = {};
  o.store = StorePath::direct;
  o.raster = Raster::along_n;
  o.raster_group = 5;
  o.clusters = 17;
  const Plan plan = planned(square(4096), o);
  EXPECT_EQ(plan.config.store, StorePath::direct);
  EXPECT_EQ(plan.split, (WorkSplit{.clusters = 17, .raster = Raster::along_n, .group = 5}));
}

TEST(planner_candidates, overrides_may_ask_for_what_the_space_does_not_list) {
  PlanOverrides o;
  o.tile_n = 104;
  EXPECT_EQ(planned(square(4096), o).config.tile.n, 104);
  o.schedule = Schedule::cooperative;
  o.tile_m = 128;
  o.cluster = ClusterShape{1, 4};
  EXPECT_EQ(short_name(planned(square(4096), o).config), "cooperative 128x104x64 s7 c1x4 bf16");
  EXPECT_EQ(planned(square(4096), o).split.clusters, kH200.max_clusters_of_4);
}

TEST(planner_candidates, the_number_of_clusters_bounds_a_split_along_k) {
  const Problem p{.m = 256, .n = 512, .k = 16384};
  EXPECT_GT(planned(p).split.slices, 1) << "unbounded, the pick is split";
  for (const int clusters : {1, 4, 12})
    for (const Plan& plan : candidates(p, kH200, {.clusters = clusters}))
      EXPECT_LE(plan.split.clusters, clusters) << short_name(plan.config);
}

TEST(planner_candidates, impossible_overrides_are_refused_with_the_rule) {
  PlanOverrides o;
  o.schedule = Schedule::ping_pong;
  o.tile_m = 256;
  expect_refused(o, {"ping_pong 256x", "ping_pong needs tile.m of 64 or 128"});
  o = {};
  o.tile_n = 12;
  expect_refused(o, {"x12x64", "multiple of 8"});
  o = {};
  o.stages = 1;
  expect_refused(o, {"stages = 1 must be in 2..32"});
  o = {};
  o.tile_m = 256, o.tile_n = 192, o.stages = 5;
  expect_refused(o, {"cooperative 256x192x64 s5", "227 KB"});
  o = {};
  o.tile_m = 256, o.tile_n = 256;
  expect_refused(o, {"208 registers"});
  o = {};
  o.cluster = ClusterShape{3, 1};
  expect_refused(o, {"c3x1", "powers of two"});
  o = {};
  o.raster_group = 0;
  expect_refused(o, {"raster_group = 0", "at least 1"});
  o.raster_group = 1 << 30;
  expect_refused(o, {"raster_group = 1073741824", "2^31"});
  o = {};
  for (const int clusters : {0, -1, 133}) {
    o.clusters = clusters;
    expect_refused(o, {"clusters = ", clusters == 133 ? "1..132" : "in 1..65536"});
  }
  o = {};
  o.store = StorePath::tma;
  expect_refused(o, {"store = tma", "16 bytes", "store direct"}, {.m = 8, .n = 9, .k = 8});
}

TEST(planner_candidates, a_smaller_device_gets_fewer_clusters) {
  DeviceInfo small = kH200;
  small.sm_count = 20;
  small.max_clusters_of_2 = 9;
  small.max_clusters_of_4 = 4;
  small.max_clusters_of_8 = 2;
  for (const Plan& plan : candidates(square(4096), small)) {
    const int size = cluster_size(plan.config), limit = size == 1 ? 20 : size == 2 ? 9 : size == 4 ? 4 : 2;
    EXPECT_EQ(plan.split.clusters, limit) << short_name(plan.config);
  }
}

}  // namespace
}  // namespace sluice
