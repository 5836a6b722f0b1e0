// SPDX-License-Identifier: Apache-2.0
// Products of experts from plan to launch on the fake driver: what is refused, which kernel is planned, and
// what a launch passes. To see it fail: pass Args::scale_d in place of scale_out, or take FactoredParams for
// products of groups.
#include <sluice/plan/dense/problem_checks.h>

#include "launch_fixture.h"

namespace sluice {
namespace {

class ExpertProductLaunch : public LaunchTest {
 protected:
  /// The first product of an expert: SwiGLU, quantised.
  static Problem gate_up() {
    Problem p{.m = 96, .n = 512, .k = 256, .a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
    p.d.type = DType::e4m3;
    p.epilogue = {.scale_a = ScaleMode::block,
                  .scale_b = ScaleMode::block,
                  .activation = Activation::silu,
                  .gated = true,
                  .scale_d = ScaleMode::block};
    return p;
  }
  /// The second one: times the router's weights.
  static Problem down() {
    Problem p{.m = 96, .n = 512, .k = 256, .a = {.type = DType::e4m3}, .b = {.type = DType::e4m3}};
    p.epilogue = {.scale_a = ScaleMode::block, .scale_b = ScaleMode::block, .row_factors = true};
    return p;
  }
  static Problem in_groups(Problem p) {
    p.batch = 4;
    p.groups.kind = GroupKind::ends;
    return p;
  }
  gemm::Args args(const Problem& p) {
    gemm::Args made = args_for(p);
    const auto floats = [&](i64 count) { return static_cast<float*>(driver.memory(4 * count)); };
    made.scale_a = floats(scale_a_count(p));
    made.scale_b = floats(scale_b_count(p));
    made.scale_out = floats(scale_out_count(p));
    made.row_factors = floats(row_factor_count(p));
    made.groups = static_cast<const int*>(driver.memory(4 * p.batch));
    return made;
  }
};

TEST_F(ExpertProductLaunch, passes_where_scales_of_d_go) {
  for (const Problem& p : {gate_up(), in_groups(gate_up())}) {
    const gemm::Kernel kernel = prepared(p);
    const KernelConfig& c = kernel.plan().config;
    EXPECT_EQ(own_outputs(c), 128);
    EXPECT_EQ(kernel.plan().workspace_bytes, 0);
    EXPECT_NE(describe(kernel.plan()).find("gated scale_d:block"), std::string::npos)
        << describe(kernel.plan());
    const gemm::Args given = args(p);
    const int before = driver.launches();
    launched(gemm::launch(kernel, given, nullptr), before + 1);
    EXPECT_EQ(driver.launch(before).params.scale_d, given.scale_out);
    EXPECT_EQ(driver.launch(before).params.d_ld, 256);
  }
}

TEST_F(ExpertProductLaunch, passes_factors_of_rows) {
  const Problem p = down();
  gemm::Args given = args(p);
  launched(gemm::launch(prepared(p), given, nullptr), 1);
  EXPECT_EQ(driver.launch(0).factored.row_factors, given.row_factors);
  const Problem grouped = in_groups(p);
  given = args(grouped);
  launched(gemm::launch(prepared(grouped), given, nullptr), 2);
  EXPECT_EQ(driver.launch(1).grouped.row_factors, given.row_factors);
  EXPECT_EQ(driver.launch(1).grouped.group_numbers, given.groups);
  Problem plain{.m = 4, .n = 512, .k = 256};
  plain.epilogue.row_factors = true;
  EXPECT_FALSE(is_plain(prepared(plain).plan().config.schedule));
}

TEST_F(ExpertProductLaunch, passes_the_distance_of_columns_of_scales) {
  Problem p = down();
  p.epilogue.row_factors = false;
  p.scale_a_ld = 100;
  const gemm::Kernel kernel = prepared(p);
  EXPECT_NE(describe(kernel.plan()).find("scales of A by columns ld 100"), std::string::npos)
      << describe(kernel.plan());
  EXPECT_TRUE(kernel.plan().config.scale_a_columns);
  gemm::Args given = args(p);
  launched(gemm::launch(kernel, given, nullptr), 1);
  EXPECT_EQ(driver.launch(0).factored.scale_a_ld, 100);
  EXPECT_EQ(driver.launch(0).params.scale_a, given.scale_a);
  Problem grouped = in_groups(p);
  launched(gemm::launch(prepared(grouped), args(grouped), nullptr), 2);
  EXPECT_EQ(driver.launch(1).grouped.scale_a_ld, 100);
  grouped.groups = {GroupKind::counts, 24};
  grouped.scale_a_ld = 24;
  launched(gemm::launch(prepared(grouped), args(grouped), nullptr), 3);
  EXPECT_EQ(driver.launch(2).grouped.scale_a_ld, 24);
  Problem other = p;
  other.scale_a_ld = 104;
  EXPECT_EQ(to_string(prepared(other).plan().config), to_string(kernel.plan().config))
      << "one kernel serves both";
}

TEST_F(ExpertProductLaunch, keeps_columns_of_scales_apart_from_d) {
  Problem p = down();
  p.scale_a_ld = 1024;
  const gemm::Kernel kernel = prepared(p);
  gemm::Args given = args(p);
  given.d = const_cast<float*>(shifted(given.scale_a, 4 * 1024));  // the second column
  refused(gemm::launch(kernel, given, nullptr), ErrorCode::aliasing, "scale_a");
  given = args(p), given.scale_a = shifted(given.scale_a, 2);
  refused(gemm::launch(kernel, given, nullptr), ErrorCode::misaligned, "scale_a");
  given = args(p), given.scale_a = nullptr;
  refused(gemm::launch(kernel, given, nullptr), ErrorCode::invalid_pointer, "scale_a is null");
}

void refuses(const Problem& p, ErrorCode code, const std::string& words,
             const PlanOverrides& overrides = {}) {
  const Result<Plan> plan = gemm::plan(p, DeviceInfo{}, overrides);
  ASSERT_FALSE(plan.ok()) << words;
  EXPECT_EQ(plan.error().code, code) << plan.error().message;
  EXPECT_NE(plan.error().message.find(words), std::string::npos) << plan.error().message;
}

TEST_F(ExpertProductLaunch, scales_of_columns_lie_by_columns_on_both_sides) {
  Problem p = down();
  p.epilogue.scale_b = ScaleMode::vector128;
  refuses(p, ErrorCode::invalid_type, "scale_a lies by rows (scale_a_ld = 0): it must lie by columns");
  p.scale_a_ld = 24;
  refuses(p, ErrorCode::invalid_stride, "scale_a_ld = 24 must be at least 96, the rows of A");
  p.scale_a_ld = 96;
  EXPECT_TRUE(gemm::plan(p, DeviceInfo{}).ok());
  p.epilogue.scale_a = ScaleMode::vector;
  refuses(p, ErrorCode::invalid_type, "scale_b is vector128 and scale_a is vector: it must be block");
  p.epilogue.scale_a = ScaleMode::vector128;
  refuses(p, ErrorCode::invalid_type, "scale_a is vector128");
  p = in_groups(down());
  p.epilogue.scale_b = ScaleMode::vector128;
  p.scale_a_ld = 96;
  refuses(p, ErrorCode::invalid_type, "rows belong to groups");
  p = down();
  p.epilogue.scale_b = ScaleMode::vector128;
  p.scale_a_ld = 96;
  refuses(p, ErrorCode::invalid_config, "swapped = true: operands with block scales", {.swapped = true});
  p.epilogue.row_factors = false;
  p.epilogue.gated = true;
  refuses(p, ErrorCode::invalid_type, "the product is gated: scale_b must be block");
  p = down();
  p.d.type = DType::e4m3;
  p.epilogue.scale_d = ScaleMode::vector128;
  refuses(p, ErrorCode::invalid_type, "scale_d is vector128");
}

TEST_F(ExpertProductLaunch, keeps_scales_of_columns_apart_from_d) {
  Problem p = down();
  p.epilogue.scale_b = ScaleMode::vector128;
  p.scale_a_ld = 96;
  const gemm::Kernel kernel = prepared(p);
  gemm::Args given = args(p);
  given.d = const_cast<float*>(shifted(given.scale_b, 4 * p.n));  // the second line
  refused(gemm::launch(kernel, given, nullptr), ErrorCode::aliasing, "scale_b");
  given = args(p), given.scale_b = nullptr;
  refused(gemm::launch(kernel, given, nullptr), ErrorCode::invalid_pointer, "scale_b is null");
  given = args(p);
  launched(gemm::launch(kernel, given, nullptr), 1);
  EXPECT_EQ(driver.launch(0).params.scale_b, given.scale_b);
}

TEST_F(ExpertProductLaunch, of_columns_that_overlap_is_refused) {
  Problem p = in_groups(down());
  p.groups = {GroupKind::counts, 24};
  p.scale_a_ld = 23;
  refuses(p, ErrorCode::invalid_stride,
          "scale_a_ld = 23 must be 0 (scales by rows), or at least 24, the rows of a group");
  p = in_groups(down());
  p.scale_a_ld = 24;
  refuses(p, ErrorCode::invalid_stride, "at least 96, the rows of A");
  Problem packed{.m = 4, .n = 128, .k = 128};
  packed.b.packed = {.type = WeightType::uint4};
  packed.scale_a_ld = 4;
  refuses(packed, ErrorCode::invalid_type, "scale_a_ld = 4: with packed weights");
  const Result<Plan> plan = gemm::plan(down(), DeviceInfo{});
  ASSERT_TRUE(plan.ok());
  Plan other = *plan;
  other.config.scale_a_columns = true;
  const Result<gemm::Kernel> kernel = gemm::prepare(device(), other);
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message.find("scale_a_columns must be"), std::string::npos)
      << kernel.error().message;
}

TEST_F(ExpertProductLaunch, asks_for_both_arrays_and_keeps_them_apart) {
  Problem p = gate_up();
  p.epilogue.row_factors = true;
  const gemm::Kernel kernel = prepared(p);
  gemm::Args given = args(p);
  given.scale_out = nullptr;
  refused(gemm::launch(kernel, given, nullptr), ErrorCode::invalid_pointer, "scale_out is null");
  given = args(p), given.row_factors = nullptr;
  refused(gemm::launch(kernel, given, nullptr), ErrorCode::invalid_pointer, "row_factors is null");
  given = args(p), given.scale_out = shifted(given.scale_out, 2);
  refused(gemm::launch(kernel, given, nullptr), ErrorCode::misaligned, "scale_out");
  given = args(p), given.scale_out = static_cast<float*>(given.d);
  refused(gemm::launch(kernel, given, nullptr), ErrorCode::aliasing, "scale_out");
  given = args(p), given.scale_out = const_cast<float*>(given.scale_a);
  refused(gemm::launch(kernel, given, nullptr), ErrorCode::aliasing, "scale_out");
}

TEST_F(ExpertProductLaunch, of_what_cannot_be_is_refused) {
  const auto refuses = [](Problem p, ErrorCode code, const std::string& words) {
    const Result<Plan> plan = gemm::plan(p, DeviceInfo{});
    ASSERT_FALSE(plan.ok()) << words;
    EXPECT_EQ(plan.error().code, code) << plan.error().message;
    EXPECT_NE(plan.error().message.find(words), std::string::npos) << plan.error().message;
  };
  Problem p = gate_up();
  p.n = 384;
  refuses(p, ErrorCode::invalid_size,
          "n = 384 of a gated product with block scales must be a multiple of 256");
  p = gate_up(), p.d.type = DType::bf16;
  refuses(p, ErrorCode::invalid_type, "D is bf16 and there is a scale_d");
  p = gate_up(), p.epilogue.scale_d = ScaleMode::vector;
  refuses(p, ErrorCode::invalid_type, "scale_d is vector: it must be none, tensor");
  p = down(), p.d.type = DType::fp32, p.epilogue.update = Update::add;
  refuses(p, ErrorCode::invalid_type, "update is add and there are row_factors");
  const Conv conv{.op = ConvOp::fprop,
                  .spatial = 2,
                  .channels = 64,
                  .filters = 64,
                  .size = {8, 8, 1},
                  .filter = {3, 3, 1}};
  for (const Epilogue& e : {Epilogue{.scale_d = ScaleMode::block}, Epilogue{.row_factors = true}}) {
    const Result<Problem> made = conv::problem(conv, DType::e4m3, DType::e4m3, e);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().message.find("a convolution computes no scales"), std::string::npos)
        << made.error().message;
  }
  Problem packed{.m = 4, .n = 128, .k = 128};
  packed.b.packed = {.type = WeightType::uint4};
  packed.epilogue.row_factors = true;
  refuses(packed, ErrorCode::invalid_type, "row_factors with packed weights");
  EXPECT_FALSE(gemm::plan(down(), DeviceInfo{}, {.swapped = true}).ok());
  EXPECT_FALSE(gemm::plan(gate_up(), DeviceInfo{}, {.tile_n = 128}).ok());
}

/// A gate leaves n free of 256 where scales are for a tensor or vectors.
TEST_F(ExpertProductLaunch, plans_every_input_and_epilogue_with_scales_of_d) {
  for (const DType in : {DType::bf16, DType::fp16, DType::e4m3, DType::e5m2})
    for (const bool gated : {false, true})
      for (const bool bias : {false, true})
        for (const i64 m : {1, 16, 300})
          for (const Accumulate accumulate : {Accumulate::fast, Accumulate::promoted}) {
            Problem p{.m = m, .n = 352, .k = 200, .a = {.type = in, .ld = 208}, .b = {.type = in, .ld = 208}};
            p.d.type = DType::e4m3;
            p.accumulate = accumulate;
            p.epilogue = {.bias = bias ? Bias::column : Bias::none,
                          .activation = Activation::gelu,
                          .gated = gated,
                          .scale_d = ScaleMode::block};
            const Result<Plan> plan = gemm::plan(p, DeviceInfo{});
            EXPECT_TRUE(plan.ok()) << plan.error().message << "\n" << to_string(p);
          }
}

}  // namespace
}  // namespace sluice
