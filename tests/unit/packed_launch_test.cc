// SPDX-License-Identifier: Apache-2.0
// prepare, launch and run of packed products on the fake driver: what is enqueued, what is refused before
// that, and that a launch allocates nothing. To see it fail: swap grid_x and grid_y, or remove a
// check_alignment.
#include "tests/packed_problems.h"

#include <limits>

#include <sluice/run/ops/packed.h>

#include "allocation_counter.h"
#include "packed_launch_fixture.h"

namespace sluice {
namespace {

NarrowConfig narrow_of(const Plan& plan) {
  return narrow_of(plan.config);
}

PackedProblem small() {
  return {.m = 4, .n = 192, .k = 256, .weights = {.group = 64}};
}

class PackedLaunch : public PackedLaunchTest {};

TEST_F(PackedLaunch, is_one_kernel_that_allocates_nothing) {
  const gemm::Kernel kernel =
      made(small(), PackedOverrides{.row_blocks = 2, .warps = 4, .stages = 2, .parts = 2});
  const gemm::Args args = args_of(small());
  const long before = allocations_of_this_thread();
  const bool ok = gemm::launch(kernel, args, nullptr).ok();
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_TRUE(ok);
  ASSERT_EQ(driver.launches(), 1);
  const LaunchRecord& launch = driver.launch(0);
  EXPECT_EQ(launch.grid_x, 12u) << "6 tiles of 32 rows in 2 parts";
  EXPECT_EQ(launch.grid_y, 1u);
  EXPECT_EQ(launch.block_x, 128u);
  EXPECT_EQ(launch.cluster_x, 2u);
  EXPECT_EQ(launch.smem_bytes, static_cast<u32>(smem_bytes(narrow_of(kernel.plan()))));
  const NarrowParams& p = launch.narrow;
  EXPECT_EQ(p.x, args.a);
  EXPECT_EQ(p.weights, args.b);
  EXPECT_EQ(p.d, args.d);
  EXPECT_EQ(p.m, 4);
  EXPECT_EQ(p.n, 192);
  EXPECT_EQ(p.k, 256);
  EXPECT_EQ(p.k_tiles, 2);
  EXPECT_EQ(p.ld_x, 256);
  EXPECT_EQ(p.ld_d, 192);
  EXPECT_EQ(p.strip_bytes, strip_bytes(small().weights, 256));
  EXPECT_TRUE(p.vectors);
}

TEST_F(PackedLaunch, of_a_chain_has_an_sm_to_itself_where_there_are_enough) {
  const Overlap overlap{Wait::weights_first, Trigger::at_start};
  const auto smem_of = [&](i64 n, const Overlap& of, int parts) {
    const PackedProblem p{.m = 4, .n = n, .k = 2048, .weights = {.group = 64}};
    const gemm::Kernel kernel =
        made(p, PackedOverrides{.row_blocks = 4, .warps = 4, .stages = 2, .parts = parts, .overlap = of});
    const int before = driver.launches();
    EXPECT_TRUE(gemm::launch(kernel, args_of(p), nullptr).ok());
    EXPECT_LT(2 * (kernel.plan().smem_bytes + 1024), kSmemOfSm) << "two would fit";
    const u32 asked = driver.launch(before).smem_bytes;
    EXPECT_GE(asked, kernel.plan().smem_bytes);
    return i64{asked};
  };
  const auto alone = [](i64 smem) { return 2 * (smem + 1024) > kSmemOfSm; };
  EXPECT_TRUE(alone(smem_of(64 * 132, overlap, 1)));
  EXPECT_FALSE(alone(smem_of(64 * 133, overlap, 1))) << "one more CTA than SMs";
  EXPECT_TRUE(alone(smem_of(64 * 64, overlap, 2)));
  EXPECT_FALSE(alone(smem_of(64 * 32, overlap, 4))) << "clusters of four may not find so many SMs";
  EXPECT_FALSE(alone(smem_of(64 * 132, {}, 1))) << "it begins when the launch before has ended";
}

TEST_F(PackedLaunch, vectors_only_where_every_row_of_d_allows_them) {
  const auto vectors = [&](PackedProblem problem, i64 shift) {
    gemm::Args args = args_of(problem);
    args.d = shifted(args.d, shift);
    const int before = driver.launches();
    EXPECT_TRUE(gemm::launch(made(problem), args, nullptr).ok());
    return driver.launch(before).narrow.vectors;
  };
  EXPECT_TRUE(vectors(small(), 8));
  EXPECT_FALSE(vectors(small(), 2)) << "D is not on 8 bytes";
  PackedProblem p = small();
  p.ld_d = 193;
  EXPECT_FALSE(vectors(p, 0)) << "the second row is not";
  p.m = 1;
  EXPECT_TRUE(vectors(p, 0)) << "there is no second row";
  p = small();
  p.n = 190;
  p.ld_d = 192;
  EXPECT_FALSE(vectors(p, 0)) << "the last four would stick out";
  p = small();
  p.d = DType::fp32;
  EXPECT_FALSE(vectors(p, 8)) << "four floats are 16 bytes";
}

TEST_F(PackedLaunch, more_tokens_than_a_grid_holds_are_several_launches) {
  PackedProblem p{.m = 3 * 65535 * 32, .n = 8, .k = 8, .weights = {.group = 0}};
  p.m -= 5;
  const gemm::Kernel kernel = made(p, PackedOverrides{.token_blocks = 4});
  const gemm::Args args{
      .a = driver.memory(p.m * 16), .b = driver.memory(1 << 16), .d = driver.memory(p.m * 16)};
  launched(gemm::launch(kernel, args, nullptr), 3);
  i64 tokens = 0;
  for (int i = 0; i < 3; ++i) {
    const LaunchRecord& launch = driver.launch(i);
    EXPECT_EQ(launch.narrow.x, shifted(const_cast<void*>(args.a), tokens * 16));
    EXPECT_EQ(launch.narrow.d, shifted(args.d, tokens * 16));
    EXPECT_EQ(static_cast<int>(launch.grid_y), ceil_div(launch.narrow.m, 32));
    tokens += launch.narrow.m;
  }
  EXPECT_EQ(tokens, p.m);
}

TEST_F(PackedLaunch, nothing_is_nothing_to_do_and_no_k_needs_no_inputs) {
  launched(gemm::launch(made({.m = 0, .n = 64, .k = 64}), {}, nullptr), 0);
  launched(gemm::launch(made({.m = 4, .n = 0, .k = 64}), {}, nullptr), 0);
  PackedProblem no_k{.m = 4, .n = 64, .k = 0, .weights = {.group = 0, .zero = ScaleZero::per_group}};
  const gemm::Kernel kernel = made(no_k);
  EXPECT_NE(narrow_of(kernel.plan()).weights.group, 0) << "row scales would lie in front of the empty blob";
  launched(gemm::launch(kernel, {.d = args_of(no_k).d}, nullptr), 1);
  EXPECT_EQ(driver.launch(0).narrow.k_tiles, 0);
}

TEST_F(PackedLaunch, one_token_may_have_any_pitch) {
  PackedProblem p{.m = 1, .n = 64, .k = 100, .weights = {.group = 32}};
  launched(gemm::launch(made(p), args_of(p), nullptr), 1);
  EXPECT_EQ(driver.launch(0).narrow.ld_x % 8, 0) << "what the kernel steps by stays on 16 bytes";
}

TEST_F(PackedLaunch, gated_has_half_the_columns) {
  PackedProblem p{.m = 4, .n = 384, .k = 256, .weights = {.group = 64}, .gated = true};
  const gemm::Kernel kernel = made(p, PackedOverrides{.row_blocks = 4});
  EXPECT_EQ(kernel.plan().problem.d.ld, 192);
  launched(gemm::launch(kernel, args_of(p), nullptr), 1);
  EXPECT_EQ(driver.launch(0).grid_x, 6u) << "tiles of 32 rows of each half";
  EXPECT_EQ(driver.launch(0).narrow.n, 192);
  launched(gemm::launch(made(p, PackedOverrides{.row_blocks = 8}), args_of(p), nullptr), 2);
  EXPECT_EQ(driver.launch(1).grid_x, 3u);
  const auto refused_problem = [&](ErrorCode code, const char* mention, const auto& spoil,
                                   const PlanOverrides& overrides = {}) {
    expect_refused_problem(p, code, mention, spoil, overrides);
  };
  refused_problem(ErrorCode::invalid_size, "n = 328 of a gated product must be a multiple of 16",
                  [](PackedProblem& bad) { bad.n = 328; });
  refused_problem(ErrorCode::invalid_size, "m = 129 must be at most 128",
                  [](PackedProblem& bad) { bad.m = 129; });
  refused_problem(ErrorCode::invalid_type, "there is a scale_d: it must be e4m3",
                  [](PackedProblem& bad) { bad.scale_d = ScaleMode::tensor; });
  refused_problem(ErrorCode::invalid_type, "D is e4m3: it must be fp16, bf16 or fp32",
                  [](PackedProblem& bad) { bad.d = DType::e4m3; });
  refused_problem(ErrorCode::invalid_stride, "n / 2 = 192", [](PackedProblem& bad) { bad.ld_d = 191; });
  refused_problem(
      ErrorCode::invalid_config, "pairs of blocks of the gate", [](PackedProblem&) {},
      PackedOverrides{.row_blocks = 2});
  refused_problem(
      ErrorCode::invalid_config, "the narrow kernel's", [](PackedProblem& bad) { bad.m = 64; },
      PackedOverrides{.tokens = 64, .cluster_n = 1});
  expect_refused_plan(p, "must be those of the problem",
                      [](Plan& plan) { plan.config.epilogue.gated = false; });
}

TEST_F(PackedLaunch, norms_what_it_reads_and_adds_a_residual) {
  PackedProblem p{.m = 4,
                  .n = 384,
                  .k = 256,
                  .x = DType::bf16,
                  .d = DType::bf16,
                  .weights = {.group = 64},
                  .norm_a = true,
                  .residual = true,
                  .ld_c = 385};
  const gemm::Kernel kernel = made(p, PackedOverrides{.parts = 2});
  const NarrowConfig c = narrow_of(kernel.plan());
  EXPECT_TRUE(c.norm_a && c.residual);
  EXPECT_GE(incoming_offset(c), squares_offset(c) + 16 * (c.warps + 2)) << "slots of warps and CTAs";
  gemm::Args good = args_of(p);
  good.epsilon = 0.5f;
  const auto expect = [&](ErrorCode code, const char* mention, auto&& spoil) {
    gemm::Args bad = good;
    spoil(bad);
    refused(gemm::launch(kernel, bad, nullptr), code, mention);
  };
  expect(ErrorCode::invalid_pointer, "plan without norm_a", [](gemm::Args& a) { a.gamma = nullptr; });
  expect(ErrorCode::invalid_pointer, "plan without a residual", [](gemm::Args& a) { a.c = nullptr; });
  expect(ErrorCode::misaligned, "gamma = ", [](gemm::Args& a) { a.gamma = shifted(a.gamma, 8); });
  expect(ErrorCode::misaligned, "C = ", [](gemm::Args& a) { a.c = shifted(a.c, 1); });
  expect(ErrorCode::aliasing, "with the same type and strides", [](gemm::Args& a) { a.c = a.d; });
  expect(ErrorCode::aliasing, "overlaps gamma", [](gemm::Args& a) { a.d = const_cast<void*>(a.gamma); });
  for (const float epsilon : {-1.0f, -1e-7f, std::numeric_limits<float>::quiet_NaN()})
    expect(ErrorCode::invalid_argument, "epsilon = ", [&](gemm::Args& a) { a.epsilon = epsilon; });
  PackedProblem same_pitch = p;
  same_pitch.ld_c = 0;
  gemm::Args in_place = good;
  in_place.c = shifted(in_place.d, 16);
  refused(gemm::launch(made(same_pitch), in_place, nullptr), ErrorCode::aliasing, "overlaps C");
  launched(gemm::launch(kernel, good, nullptr), 1);
  const NarrowParams& params = driver.launch(0).narrow;
  EXPECT_EQ(params.gamma, good.gamma);
  EXPECT_EQ(params.c, good.c);
  EXPECT_EQ(params.ld_c, 385);
  EXPECT_EQ(params.epsilon, 0.5f);
  EXPECT_FALSE(params.vectors) << "the second row of C is not on 8 bytes";
  in_place.c = in_place.d;
  launched(gemm::launch(made(same_pitch), in_place, nullptr), 2);
  EXPECT_TRUE(driver.launch(1).narrow.vectors);

  const auto refused_problem = [&](ErrorCode code, const char* mention, const auto& spoil,
                                   const PlanOverrides& overrides = {}) {
    expect_refused_problem(p, code, mention, spoil, overrides);
  };
  refused_problem(ErrorCode::invalid_type, "A is fp16 and is to be normed",
                  [](PackedProblem& bad) { bad.x = DType::fp16; });
  refused_problem(ErrorCode::invalid_size, "m = 9 must be at most 8", [](PackedProblem& bad) { bad.m = 9; });
  refused_problem(ErrorCode::invalid_type, "a gated product adds no residual",
                  [](PackedProblem& bad) { bad.gated = true; });
  refused_problem(ErrorCode::invalid_size, "m = 65 must be at most 64", [](PackedProblem& bad) {
    bad.norm_a = false;
    bad.m = 65;
  });
  refused_problem(ErrorCode::invalid_type, "there is a residual: it must be fp16 or bf16",
                  [](PackedProblem& bad) {
                    bad.norm_a = false;
                    bad.x = DType::e4m3;
                    bad.weights.order = FragmentOrder::byte;
                  });
  refused_problem(ErrorCode::invalid_type, "A is e4m3 and is to be normed", [](PackedProblem& bad) {
    bad.residual = false;
    bad.x = DType::e4m3;
    bad.weights.order = FragmentOrder::byte;
  });
  refused_problem(ErrorCode::invalid_stride, "c.ld = -1", [](PackedProblem& bad) { bad.ld_c = -1; });
  refused_problem(
      ErrorCode::invalid_config, "tile_m = 8", [](PackedProblem&) {}, PackedOverrides{.token_blocks = 2});
  refused_problem(ErrorCode::invalid_stride, "c.ld = 383", [](PackedProblem& bad) { bad.ld_c = 383; });
  EXPECT_NE(describe(kernel.plan()).find("norm_a residual"), std::string::npos);
  EXPECT_STREQ(validate(NarrowConfig{.norm_a = true}), "norm_a takes bf16 A in tiles of 8 rows (tile_m = 8)");
  EXPECT_STREQ(validate(NarrowConfig{.gated = true, .residual = true}), "a gated product adds no residual");
  PackedProblem no_k = p;
  no_k.k = 0;
  EXPECT_FALSE(narrow_of(made(no_k).plan()).norm_a) << "nothing has no mean";
  launched(gemm::launch(made(no_k), {.c = good.c, .d = good.d, .epsilon = -1.0f}, nullptr), 3);
  PackedProblem lone = p;
  lone.m = 1;
  lone.ld_d = 400;
  in_place.c = in_place.d;
  launched(gemm::launch(made(lone), in_place, nullptr), 4) /* one row has no pitch */;
}

TEST_F(PackedLaunch, refuses_with_value_rule_and_remedy) {
  PackedProblem p = small();
  p.bias = Bias::column;
  p.bias_type = DType::fp32;
  const gemm::Kernel kernel = made(p);
  const gemm::Args good = args_of(p);
  const auto expect = [&](ErrorCode code, const char* mention, auto&& spoil) {
    gemm::Args bad = good;
    spoil(bad);
    refused(gemm::launch(kernel, bad, nullptr), code, mention);
  };
  expect(ErrorCode::invalid_pointer, "A is null", [](gemm::Args& a) { a.a = nullptr; });
  expect(ErrorCode::invalid_pointer, "B is null", [](gemm::Args& a) { a.b = nullptr; });
  expect(ErrorCode::invalid_pointer, "D is null", [](gemm::Args& a) { a.d = nullptr; });
  expect(ErrorCode::invalid_pointer, "without a bias", [](gemm::Args& a) { a.bias = nullptr; });
  expect(ErrorCode::misaligned, "16 bytes", [](gemm::Args& a) { a.a = shifted(a.a, 8); });
  expect(ErrorCode::misaligned, "128 bytes", [](gemm::Args& a) { a.b = shifted(a.b, 64); });
  expect(ErrorCode::misaligned, "D = ", [](gemm::Args& a) { a.d = shifted(a.d, 1); });
  expect(ErrorCode::misaligned, "bias = ", [](gemm::Args& a) { a.bias = shifted(a.bias, 2); });
  expect(ErrorCode::aliasing, "overlaps A", [](gemm::Args& a) { a.d = const_cast<void*>(a.a); });
  expect(ErrorCode::aliasing, "overlaps B",
         [](gemm::Args& a) { a.d = shifted(const_cast<void*>(a.b), 1024); });
  expect(ErrorCode::aliasing, "overlaps bias", [](gemm::Args& a) { a.d = const_cast<void*>(a.bias); });
  expect(ErrorCode::invalid_pointer, "host memory",
         [&](gemm::Args& a) { a.a = driver.memory(1 << 16, 0, CU_MEMORYTYPE_HOST); });
  expect(ErrorCode::wrong_device, "device 1", [&](gemm::Args& a) { a.d = driver.memory(1 << 16, 1); });
  refused(gemm::launch(kernel, good, driver.foreign_stream()), ErrorCode::wrong_device, "stream");
}

TEST_F(PackedLaunch, a_plan_made_by_hand_is_checked) {
  const auto expect = [&](const char* mention, const auto& spoil) {
    expect_refused_plan(small(), mention, spoil);
  };
  expect("warps", [&](Plan& p) { p.config.warps = 17; });
  expect("odd number", [&](Plan& p) { p.config.tile.n = 128, p.config.warps = 4, p.config.stages = 2; });
  expect("formats", [&](Plan& p) { p.config.packed.group = 32; });
  expect("formats", [&](Plan& p) { p.config.epilogue.activation = Activation::relu; });
  expect("tile_m must be",
         [&](Plan& p) { p.config = config_of(WideConfig{.weights = small().weights, .tokens = 44}); });
  expect("formats", [](Plan& p) { p.config = config_of(WideConfig{}); });
  expect("more than 0", [&](Plan& p) {
    p.problem.k = p.problem.a.ld = 0;
    p.config = config_of(
        WideConfig{.x = DType::bf16, .d = DType::bf16});  // its weights do not have the default format
  });
  expect("a.ld", [](Plan& p) { p.problem.a.ld = 255; });
  const auto strip = [](Plan& p, const StripConfig& config) {
    p.problem.a.type = DType::e4m3;
    p.problem.b.packed.order = FragmentOrder::byte;
    p.config = config_of(config);
  };
  expect("cluster_k must be", [&](Plan& p) { strip(p, {.parts = 0}); });
  expect("tile_n must be", [&](Plan& p) { strip(p, {.strips = 0}); });
  const Result<Plan> plan = gemm::plan(small(), device().info());
  ASSERT_TRUE(plan.ok());
  Plan bare = *plan;
  bare.smem_bytes = 0;  // derived from the config
  const Result<gemm::Kernel> kernel = gemm::prepare(device(), bare);
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(kernel->plan().smem_bytes, smem_bytes(narrow_of(*plan)));
}

TEST_F(PackedLaunch, holds_the_tokens_that_there_are) {
  const auto held = [&](i64 m, std::optional<int> token_blocks = {}) {
    const auto plan = gemm::plan(PackedProblem{.m = m, .n = 512, .k = 2048, .weights = {.group = 64}},
                                 DeviceInfo{}, PackedOverrides{.token_blocks = token_blocks, .warps = 4});
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    return plan->config.held_rows;
  };
  EXPECT_EQ(held(1), 1);
  EXPECT_EQ(held(2), 4);
  EXPECT_EQ(held(4), 4);
  EXPECT_EQ(held(5), 0);
  EXPECT_EQ(held(1, 2), 0) << "tiles of 16 hold all";
  Result<Plan> few = gemm::plan(PackedProblem{.m = 1, .n = 512, .k = 2048, .weights = {.group = 64}},
                                DeviceInfo{}, PackedOverrides{.warps = 4});
  ASSERT_TRUE(few.ok());
  EXPECT_NE(describe(*few).find(" h1 "), std::string::npos) << describe(*few);
  few->problem.m = 2;
  const Result<gemm::Kernel> kernel = gemm::prepare(device(), *few);
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message.find("held_rows must be at least m"), std::string::npos);
  EXPECT_STREQ(validate(NarrowConfig{.held_tokens = 2}), "held_rows must be 0, or 1 or 4 with tile_m = 8");
  EXPECT_NE(validate(NarrowConfig{.held_tokens = 4, .token_blocks = 2}), nullptr);
}

TEST_F(PackedLaunch, run_keeps_its_kernel_and_refuses_to_prepare_in_a_capture) {
  const gemm::Args args = args_of(small());
  CUstream stream = nullptr;
  const ContextScope scope(*device().impl().primary);
  ASSERT_TRUE(scope.entered().ok());
  ASSERT_EQ(device().impl().api->cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(device().impl().api->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  const Result<void> cold = gemm::run(device(), small(), args, stream);
  ASSERT_FALSE(cold.ok());
  EXPECT_EQ(cold.error().code, ErrorCode::not_prepared);
  CUgraph graph = nullptr;
  ASSERT_EQ(device().impl().api->cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_TRUE(gemm::run(device(), small(), args, stream).ok());
  EXPECT_EQ(driver.launches(), 1);
  const int modules = driver.alive().modules;
  ASSERT_EQ(device().impl().api->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_TRUE(gemm::run(device(), small(), args, stream).ok());
  EXPECT_TRUE(driver.launch(1).captured);
  EXPECT_EQ(driver.alive().modules, modules);
  CUgraph second = nullptr;
  EXPECT_EQ(device().impl().api->cuStreamEndCapture(stream, &second), CUDA_SUCCESS);
  for (CUgraph g : {graph, second})
    if (g != nullptr) device().impl().api->cuGraphDestroy(g);
  device().impl().api->cuStreamDestroy(stream);
}

TEST_F(PackedLaunch, of_many_tokens_is_one_kernel_that_allocates_nothing) {
  const PackedProblem p{.m = 300, .n = 1000, .k = 520, .weights = {.group = 64}};
  const gemm::Kernel kernel = made(p, PackedOverrides{.tokens = 128, .cluster_n = 2});
  const gemm::Args args = args_of(p);
  const long before = allocations_of_this_thread();
  const bool ok = gemm::launch(kernel, args, nullptr).ok();
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_TRUE(ok);
  ASSERT_EQ(driver.launches(), 1);
  const LaunchRecord& launch = driver.launch(0);
  EXPECT_EQ(launch.grid_x, 24u) << "3 tiles of tokens, 4 of 2 x 128 rows";
  EXPECT_EQ(launch.block_x, static_cast<u32>(kWideThreads));
  EXPECT_EQ(launch.cluster_x, 2u);
  const WideConfig c = wide_of(kernel.plan().config);
  EXPECT_EQ(launch.smem_bytes, static_cast<u32>(smem_bytes(c)));
  const WideParams& w = launch.wide;
  EXPECT_EQ(w.weights, args.b);
  EXPECT_EQ(w.d, args.d);
  EXPECT_EQ(w.m, 300);
  EXPECT_EQ(w.n, 1000);
  EXPECT_EQ(w.k_tiles, 5);
  EXPECT_EQ(w.strips, 16);
  EXPECT_EQ(w.token_tiles, 3);
  EXPECT_EQ(w.row_tiles, 4);
  EXPECT_EQ(w.band, 3);
  EXPECT_EQ(w.strip_bytes, strip_bytes(p.weights, p.k));
  EXPECT_EQ(w.x_bytes, 128u * 128u);
  EXPECT_TRUE(w.stores_boxes);
  const DecodedMap x = decode(w.map_x), d = decode(w.map_d);
  EXPECT_EQ(x.address, reinterpret_cast<u64>(args.a));
  EXPECT_EQ(x.inner, 520u) << "what is behind k is zeros";
  EXPECT_EQ(x.outer, 300u);
  EXPECT_EQ(x.row_stride, 1040u);
  EXPECT_EQ(x.box_inner, 64);
  EXPECT_EQ(x.box_outer, 64) << "each CTA copies half of the tokens";
  EXPECT_EQ(d.address, reinterpret_cast<u64>(args.d));
  EXPECT_EQ(d.inner, 1000u);
  EXPECT_EQ(d.box_inner, 64);
  EXPECT_EQ(d.box_outer, 32);
}

TEST_F(PackedLaunch, of_many_tokens_stores_boxes_only_where_no_byte_beside_d_is_written) {
  const auto boxes = [&](PackedProblem problem, i64 shift) {
    gemm::Args args = args_of(problem);
    args.d = shifted(args.d, shift);
    const int before = driver.launches();
    EXPECT_TRUE(
        gemm::launch(made(problem, PackedOverrides{.tokens = 32, .cluster_n = 1}), args, nullptr).ok());
    return driver.launch(before).wide.stores_boxes;
  };
  const PackedProblem p{.m = 40, .n = 200, .k = 256, .weights = {.group = 64}};
  EXPECT_TRUE(boxes(p, 0));
  EXPECT_FALSE(boxes(p, 8)) << "D is not on 16 bytes";
  PackedProblem other = p;
  other.ld_d = 204;
  EXPECT_FALSE(boxes(other, 0)) << "the second row is not";
  other.m = 1;
  EXPECT_TRUE(boxes(other, 0)) << "there is no second row";
  other = p;
  other.n = 196;
  other.ld_d = 200;
  EXPECT_FALSE(boxes(other, 0)) << "the last 16 bytes of a row are not all its own";
  other = p;
  other.d = DType::fp32;
  EXPECT_FALSE(boxes(other, 0)) << "fp32 goes from registers";
}

TEST_F(PackedLaunch, of_many_tokens_has_as_many_ctas_as_fit_or_as_tiles) {
  const auto launched_with = [&](PackedProblem problem, const PlanOverrides& overrides) {
    const int before = driver.launches();
    EXPECT_TRUE(gemm::launch(made(problem, overrides), args_of(problem), nullptr).ok());
    return driver.launch(before);
  };
  const PackedProblem large{.m = 512, .n = 12800, .k = 256, .weights = {.group = 64}};
  EXPECT_EQ(launched_with(large, PackedOverrides{.tokens = 256, .cluster_n = 1}).grid_x, 132u);
  EXPECT_EQ(launched_with(large, PackedOverrides{.tokens = 256, .cluster_n = 2}).grid_x, 132u);
  EXPECT_EQ(
      launched_with({.m = 300, .n = 640, .k = 256}, PackedOverrides{.tokens = 256, .cluster_n = 1}).grid_x,
      10u);
  const LaunchRecord few =
      launched_with({.m = 20, .n = 100, .k = 256}, PackedOverrides{.tokens = 32, .cluster_n = 1});
  EXPECT_EQ(few.grid_x, 1u);
  EXPECT_EQ(few.wide.strips, 2);
  EXPECT_EQ(few.wide.x_bytes, 24u * 128u) << "only the tokens that are there, in eights";
  EXPECT_EQ(decode(few.wide.map_x).box_outer, 24);
}

}  // namespace
}  // namespace sluice
