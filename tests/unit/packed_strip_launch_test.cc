// SPDX-License-Identifier: Apache-2.0
// Products of the strip kernel on the fake driver: what is enqueued, scales of tokens among the arguments,
// and what is refused. To see it fail: swap scale_x and bias in enqueue, or leave scale_x out of
// the operand table.
#include "tests/packed_problems.h"

#include <sluice/run/ops/packed.h>

#include "allocation_counter.h"
#include "packed_launch_fixture.h"

namespace sluice {
namespace {

PackedProblem small() {
  return {.m = 20,
          .n = 192,
          .k = 520,
          .x = DType::e4m3,
          .scale_x = ScaleMode::vector,
          .d = DType::bf16,
          .weights = {.group = 64, .order = FragmentOrder::byte},
          .ld_x = 528};
}

class PackedStripLaunch : public PackedLaunchTest {};

TEST_F(PackedStripLaunch, is_one_kernel_that_allocates_nothing) {
  const gemm::Kernel kernel =
      made(small(), PackedOverrides{.stages = 4, .parts = 2, .tokens = 32, .strips = 2, .k_groups = 1});
  const gemm::Args args = args_of(small());
  const long before = allocations_of_this_thread();
  const bool ok = gemm::launch(kernel, args, nullptr).ok();
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_TRUE(ok);
  ASSERT_EQ(driver.launches(), 1);
  const LaunchRecord& launch = driver.launch(0);
  const StripConfig c = strip_of(kernel.plan().config);
  EXPECT_EQ(launch.grid_x, 4u) << "2 tiles of 128 outputs in 2 parts";
  EXPECT_EQ(launch.block_x, static_cast<u32>(threads_of(c)));
  EXPECT_EQ(launch.cluster_x, 2u);
  EXPECT_EQ(launch.smem_bytes, static_cast<u32>(smem_bytes(c)));
  const StripParams& p = launch.strip;
  EXPECT_EQ(p.weights, args.b);
  EXPECT_EQ(p.d, args.d);
  EXPECT_EQ(p.scale_x, args.scale_a);
  EXPECT_EQ(p.m, 20);
  EXPECT_EQ(p.n, 192);
  EXPECT_EQ(p.k_tiles, 5);
  EXPECT_EQ(p.strips, 3);
  EXPECT_EQ(p.token_tiles, 1);
  EXPECT_EQ(p.strip_bytes, strip_bytes(small().weights, 520));
  EXPECT_EQ(p.x_bytes, 20u * 128u) << "only the tokens that are there";
  EXPECT_TRUE(p.vectors);
  const DecodedMap x = decode(p.map_x);
  EXPECT_EQ(x.address, reinterpret_cast<u64>(args.a));
  EXPECT_EQ(x.inner, 520u) << "what is behind k is zeros";
  EXPECT_EQ(x.outer, 20u);
  EXPECT_EQ(x.row_stride, 528u);
  EXPECT_EQ(x.box_inner, 128);
  EXPECT_EQ(x.box_outer, 20);
}

TEST_F(PackedStripLaunch, tokens_of_16_bits_come_in_two_boxes_of_64_k) {
  PackedProblem problem = small();
  problem.x = DType::bf16;
  problem.scale_x = ScaleMode::none;
  problem.weights.order = FragmentOrder::half;
  const gemm::Kernel kernel =
      made(problem, PackedOverrides{.parts = 2, .tokens = 32, .strips = 2, .k_groups = 1});
  ASSERT_TRUE(gemm::launch(kernel, args_of(problem), nullptr));
  ASSERT_EQ(driver.launches(), 1);
  const StripParams& p = driver.launch(0).strip;
  EXPECT_EQ(p.x_bytes, 20u * 256u) << "of both boxes, and only the tokens that are there";
  const DecodedMap x = decode(p.map_x);
  EXPECT_EQ(x.inner, 520u);
  EXPECT_EQ(x.row_stride, 528u * 2);
  EXPECT_EQ(x.box_inner, 64);
  EXPECT_EQ(x.box_outer, 20);
}

TEST_F(PackedStripLaunch, gated_and_quantised_has_half_the_columns_and_a_scale) {
  PackedProblem p = small();
  p.n = 384;
  p.gated = true;
  p.d = DType::e4m3;
  p.scale_d = ScaleMode::tensor;
  const gemm::Kernel kernel = made(p, PackedOverrides{.parts = 1, .tokens = 32, .strips = 2, .k_groups = 1});
  EXPECT_EQ(kernel.plan().problem.d.ld, 192);
  gemm::Args args = args_of(p);
  const int before = driver.launches();
  ASSERT_TRUE(gemm::launch(kernel, args, nullptr).ok());
  const LaunchRecord& launch = driver.launch(before);
  EXPECT_EQ(launch.grid_x, 3u) << "tiles of 64 columns";
  EXPECT_EQ(launch.block_x, 2u * 128 + 64);
  EXPECT_EQ(launch.strip.n, 192);
  EXPECT_EQ(launch.strip.strips, 6);
  EXPECT_EQ(launch.strip.scale_d, args.scale_d);
  args.scale_d = nullptr;
  const Result<void> without = gemm::launch(kernel, args, nullptr);
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.error().message.find("scale_d is null"), std::string::npos) << without.error().message;
  EXPECT_EQ(driver.launches(), before + 1);
}

TEST_F(PackedStripLaunch, many_tokens_are_tiles_beside_one_another) {
  PackedProblem p = small();
  p.m = 300;
  ASSERT_TRUE(gemm::launch(made(p, PackedOverrides{.tokens = 128, .strips = 1}), args_of(p), nullptr).ok());
  EXPECT_EQ(driver.launch(0).strip.token_tiles, 3);
  EXPECT_EQ(driver.launch(0).grid_x % 9, 0u) << "3 of them on 3 strips, in parts";
  EXPECT_EQ(driver.launch(0).strip.x_bytes, 128u * 128u);
}

TEST_F(PackedStripLaunch, no_k_needs_no_inputs) {
  PackedProblem p = small();
  p.k = p.ld_x = 0;
  p.weights.group = 0;
  ASSERT_TRUE(gemm::launch(made(p), {.d = args_of(p).d}, nullptr).ok());
  EXPECT_EQ(driver.launch(0).strip.k_tiles, 0);
  const Result<void> nothing = gemm::launch(
      made({.m = 0, .n = 64, .k = 64, .x = DType::e4m3, .weights = {.order = FragmentOrder::byte}}), {},
      nullptr);
  EXPECT_TRUE(nothing.ok());
  EXPECT_EQ(driver.launches(), 1);
}

TEST_F(PackedStripLaunch, one_token_may_have_any_pitch) {
  PackedProblem p = small();
  p.m = 1;
  p.ld_x = 521;
  EXPECT_TRUE(gemm::launch(made(p), args_of(p), nullptr).ok());
  EXPECT_EQ(driver.launches(), 1);
}

TEST_F(PackedStripLaunch, refuses_with_value_rule_and_remedy) {
  const gemm::Kernel kernel = made(small());
  const gemm::Args good = args_of(small());
  const auto expect = [&](ErrorCode code, const char* mention, auto&& spoil) {
    gemm::Args bad = good;
    spoil(bad);
    refused(gemm::launch(kernel, bad, nullptr), code, mention);
  };
  expect(ErrorCode::invalid_pointer,
         "scale_a is null: pass device memory of 80 bytes, or plan with scale_a none",
         [](gemm::Args& a) { a.scale_a = nullptr; });
  expect(ErrorCode::misaligned, "scale_a = ", [](gemm::Args& a) {
    a.scale_a = reinterpret_cast<const float*>(reinterpret_cast<u64>(a.scale_a) + 2);
  });
  expect(ErrorCode::aliasing, "overlaps scale_a", [](gemm::Args& a) { a.d = const_cast<float*>(a.scale_a); });
  expect(ErrorCode::invalid_pointer, "scale_a", [&](gemm::Args& a) {
    a.scale_a = static_cast<const float*>(driver.memory(1 << 16, 0, CU_MEMORYTYPE_HOST));
  });
  expect(ErrorCode::wrong_device, "device 1",
         [&](gemm::Args& a) { a.scale_a = static_cast<const float*>(driver.memory(1 << 16, 1)); });
  expect(ErrorCode::misaligned, "16 bytes", [](gemm::Args& a) { a.a = shifted(a.a, 8); });
  PackedProblem none = small();
  none.scale_x = ScaleMode::none;
  gemm::Args bare = args_of(none);
  bare.scale_a = nullptr;
  EXPECT_TRUE(gemm::launch(made(none), bare, nullptr).ok()) << "what the problem has not is not looked at";
}

TEST_F(PackedStripLaunch, a_plan_made_by_hand_is_checked) {
  const auto expect = [&](const char* mention, const auto& spoil) {
    expect_refused_plan(small(), mention, spoil);
  };
  expect("tile_n must be", [&](Plan& p) { p.config.tile.n = 5 * kStripRows; });
  expect("formats", [&](Plan& p) { p.config.epilogue.scale_a = ScaleMode::tensor; });
  expect("formats", [&](Plan& p) { p.config.packed.group = 128; });
  expect("order half", [](Plan& p) { p.config = config_of(NarrowConfig{.weights = p.problem.b.packed}); });
  expect("formats", [](Plan& p) { p.config = config_of(WideConfig{}); });
  expect("a.ld = 524 must be a multiple of 16", [](Plan& p) { p.problem.a.ld = 524; });
}

}  // namespace
}  // namespace sluice
