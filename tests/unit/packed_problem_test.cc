// SPDX-License-Identifier: Apache-2.0
// A problem whose B is packed, and the configs of its kernels as KernelConfigs and back. To see them fail:
// leave a field out of config_of() or narrow_of() in spec/packed_config.h, or a check out of check_unused().
#include <gtest/gtest.h>

#include <functional>

#include <sluice/run/ops/gemm.h>
#include <sluice/run/ops/problem_key.h>

#include "packed_launch_fixture.h"

namespace sluice {
namespace {

Problem small() {
  return packed_problem(4, 192, 256, DType::bf16, DType::bf16, {.group = 64});
}

TEST(packed_config, every_candidate_is_the_same_there_and_back) {
  int of_kind[3] = {};
  for (const i64 m : {1, 7, 20, 64, 300})
    for (const DType a : {DType::bf16, DType::e4m3})
      for (const bool more : {false, true}) {
        PackedProblem p{.m = m, .n = 1024, .k = 2048, .x = a, .d = DType::fp16};
        if (a == DType::e4m3) p.weights.order = FragmentOrder::byte, p.scale_x = ScaleMode::vector;
        if (more)
          p.bias = Bias::column, p.bias_type = DType::fp32, p.gated = m < 100,
          p.activation = Activation::silu;
        const Result<std::vector<Plan>> plans = gemm::candidates(p, DeviceInfo{});
        ASSERT_TRUE(plans) << plans.error().message;
        for (const Plan& plan : *plans) {
          const KernelConfig& c = plan.config;
          EXPECT_EQ(validate_decoder(c), nullptr) << to_string(c);
          visit_decoder(c, [&](const auto& kernel) { EXPECT_EQ(config_of(kernel), c) << to_string(c); });
          ++of_kind[packed_config_of(c).index()];
        }
      }
  for (const int count : of_kind) EXPECT_GT(count, 50);
}

TEST(packed_config, what_no_kernel_has_breaks_a_rule) {
  const KernelConfig good = config_of(NarrowConfig{});
  ASSERT_EQ(validate_decoder(good), nullptr);
  const std::function<void(KernelConfig&)> spoils[] = {
      [](KernelConfig& c) { c.store = StorePath::tma; },
      [](KernelConfig& c) { c.cluster.m = 2; },
      [](KernelConfig& c) { c.combine = Combine::separate; },
      [](KernelConfig& c) { c.tile.m = 12; },
      [](KernelConfig& c) { c.w_stages = 2; },
      [](KernelConfig& c) { c.b_major = Major::mn; },
      [](KernelConfig& c) { c.epilogue.scale_b = ScaleMode::tensor; }};
  for (const auto& spoil : spoils) {
    KernelConfig bad = good;
    spoil(bad);
    EXPECT_NE(validate_decoder(bad), nullptr) << to_string(bad);
  }
}

void expect_refused(const Problem& p, ErrorCode code, const char* mention) {
  const Result<Plan> plan = gemm::plan(p, DeviceInfo{});
  ASSERT_FALSE(plan) << mention;
  EXPECT_EQ(plan.error().code, code) << plan.error().message;
  EXPECT_NE(plan.error().message.find(mention), std::string::npos) << plan.error().message;
  // run() keeps kernels under a problem's key. The key must not make a product of what has none.
  const Result<Plan> of_key = gemm::plan(key_of(p), DeviceInfo{});
  ASSERT_FALSE(of_key) << mention;
  EXPECT_EQ(of_key.error().message, plan.error().message);
}

TEST(packed_problem, what_packed_weights_do_not_have_is_refused_by_name) {
  const auto refused = [](ErrorCode code, const char* mention, const std::function<void(Problem&)>& spoil) {
    Problem p = small();
    spoil(p);
    expect_refused(p, code, mention);
  };
  refused(ErrorCode::invalid_size, "batch = 2 must be 1", [](Problem& p) { p.batch = 2; });
  refused(ErrorCode::invalid_type, "mn-major", [](Problem& p) { p.a.major = Major::mn; });
  refused(ErrorCode::invalid_stride, "b.ld = 256 must be 0", [](Problem& p) { p.b.ld = 256; });
  refused(ErrorCode::invalid_type, "update is add", [](Problem& p) { p.epilogue.update = Update::add; });
  refused(ErrorCode::invalid_type, "scale_b is tensor",
          [](Problem& p) { p.epilogue.scale_b = ScaleMode::tensor; });
  refused(ErrorCode::invalid_type, "bias is row", [](Problem& p) { p.epilogue.bias = Bias::row; });
  refused(ErrorCode::invalid_type, "only B can be", [](Problem& p) { p.a.packed = {}; });
  refused(ErrorCode::misaligned, "unaligned is true", [](Problem& p) { p.d.unaligned = true; });
  refused(ErrorCode::misaligned, "unaligned is true", [](Problem& p) { p.b.unaligned = true; });
  refused(ErrorCode::invalid_type, "a convolution's filters cannot be packed",
          [](Problem& p) { p.conv.op = ConvOp::fprop; });
  refused(ErrorCode::invalid_type, "C is fp32 and D is bf16", [](Problem& p) {
    add_residual(p);
    p.epilogue.c_type = DType::fp32;
  });
  refused(ErrorCode::invalid_type, "a residual before the activation", [](Problem& p) {
    p.epilogue.residual = true;
    p.epilogue.activation = Activation::relu;
  });
}

TEST(packed_problem, what_only_packed_weights_have_is_refused_without_them) {
  const auto refused = [](const char* mention, const std::function<void(Problem&)>& spoil) {
    Problem p{.m = 64, .n = 64, .k = 64};
    spoil(p);
    expect_refused(p, ErrorCode::invalid_type, mention);
  };
  refused("norm_a is for packed weights", [](Problem& p) { p.norm_a = true; });
  refused("residual_last is for packed weights", [](Problem& p) { p.epilogue.residual_last = true; });
  refused("only B can be", [](Problem& p) { p.a.packed = {}; });
}

TEST(packed_problem, a_plan_cannot_give_a_dense_product_a_kernel_for_packed_weights) {
  const Result<Plan> plan = gemm::plan({.m = 512, .n = 512, .k = 512}, DeviceInfo{});
  ASSERT_TRUE(plan) << plan.error().message;
  const auto refused = [&](const char* mention, const std::function<void(KernelConfig&)>& spoil) {
    Plan made = *plan;
    spoil(made.config);
    const Result<Plan> sealed = gemm::sealed(made, DeviceInfo{});
    ASSERT_FALSE(sealed) << mention;
    EXPECT_EQ(sealed.error().code, ErrorCode::invalid_config);
    EXPECT_NE(sealed.error().message.find(mention), std::string::npos) << sealed.error().message;
  };
  for (const Schedule schedule : {Schedule::narrow, Schedule::wide, Schedule::strip})
    refused("narrow, wide and strip are for packed", [&](KernelConfig& c) { c.schedule = schedule; });
  refused("are for packed weights", [](KernelConfig& c) { c.held_rows = 4; });
  refused("are for packed weights", [](KernelConfig& c) { c.packed = {}; });
  EXPECT_FALSE(gemm::with_overlap(*plan, {.wait = static_cast<Wait>(77)}));
}

/// Without an activation, C before it and C behind it are one formula.
TEST(packed_problem, spellings_of_one_product_have_one_key) {
  Problem p = small();
  p.epilogue.residual = true;
  Problem last = p;
  last.epilogue.residual_last = true;
  EXPECT_EQ(key_of(p), key_of(last));
  EXPECT_EQ(*check_problem(p), *check_problem(last));
  Problem spelled = small();
  spelled.a.ld = 256;
  spelled.b.type = DType::fp16;  // that of A counts
  spelled.accumulate = Accumulate::fast;
  spelled.c.ld = 999;  // there is no C
  EXPECT_EQ(key_of(small()), key_of(spelled));
  spelled.b.packed.group = 32;
  EXPECT_NE(key_of(small()), key_of(spelled));
}

class PackedScalars : public PackedLaunchTest {};

TEST_F(PackedScalars, other_than_1_are_refused) {
  PackedProblem p{.m = 4, .n = 192, .k = 256, .weights = {.group = 64}, .residual = true};
  const gemm::Kernel kernel = made(p);
  gemm::Args args = args_of(p);
  args.alpha = 2;
  refused(gemm::launch(kernel, args, nullptr), ErrorCode::invalid_argument, "alpha = 2 must be 1");
  args.alpha = 1;
  args.beta = 0;
  refused(gemm::launch(kernel, args, nullptr), ErrorCode::invalid_argument, "beta = 0 must be 1");
  args.beta = 1;
  launched(gemm::launch(kernel, args, nullptr), 1);
  p.residual = false;
  args.beta = 0;
  launched(gemm::launch(made(p), args, nullptr), 2);
}

}  // namespace
}  // namespace sluice
