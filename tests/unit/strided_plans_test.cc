// SPDX-License-Identifier: Apache-2.0
// Problems with operands that TMA cannot address: plans, launches, refusals. To see it fail: let load_of()
// always return Load::tma; the launch then encodes a map that the fake driver refuses.
#include <sluice/kernels/registry.h>
#include <sluice/plan/dense/candidates.h>
#include <sluice/plan/records/recipe.h>

#include "launch_fixture.h"

namespace sluice {
namespace {

class Strided : public LaunchTest {
 protected:
  static Problem vocabulary_dgrad() { return {.m = 512, .n = 768, .k = 50257, .b = {.major = Major::mn}}; }
};

TEST_F(Strided, only_operands_that_need_it_come_without_tma) {
  const auto loads = [&](const Problem& p) {
    const Result<Plan> plan = gemm::plan(p, device().info());
    EXPECT_TRUE(plan.ok()) << (plan ? "" : plan.error().message);
    if (!plan) return std::pair{Load::tma, Load::tma};
    EXPECT_EQ(validate(plan->config), nullptr);
    const bool swapped = is_swapped(plan->config);
    const Load a = plan->config.load_a, b = plan->config.load_b;
    return swapped ? std::pair{b, a} : std::pair{a, b};
  };
  constexpr Load kTma = Load::tma, kStrided = Load::strided;
  EXPECT_EQ(loads(small_problem()), (std::pair{kTma, kTma}));
  EXPECT_EQ(loads(vocabulary_dgrad()), (std::pair{kStrided, kTma}));
  Problem p = small_problem();
  p.k = 100;
  EXPECT_EQ(loads(p), (std::pair{kStrided, kStrided}));
  p = small_problem();
  p.b.unaligned = true;
  EXPECT_EQ(loads(p), (std::pair{kTma, kStrided}));
  p = small_problem();
  p.m = 1;
  p.a.ld = 129;  // irrelevant, because there is one row
  EXPECT_EQ(loads(p), (std::pair{kTma, kTma}));
  p.batch = 2;
  p.a.batch_stride = 129;
  EXPECT_EQ(loads(p), (std::pair{kStrided, kTma}));
}

TEST_F(Strided, launches_with_addresses_and_strides_and_no_map) {
  Problem p = vocabulary_dgrad();
  p.a.unaligned = p.d.unaligned = true;
  const gemm::Kernel kernel = prepared(p);
  gemm::Args args = args_for(p);
  args.a = shifted(args.a, 2);
  args.d = shifted(args.d, 2);
  args.workspace = {driver.memory(kernel.plan().workspace_bytes + 256), kernel.plan().workspace_bytes};
  ASSERT_FALSE(is_swapped(kernel.plan().config)) << "D is unaligned";
  const Result<void> done = gemm::launch(kernel, args, nullptr);
  ASSERT_TRUE(done.ok()) << done.error().message;
  const GemmParams& params = driver.launch(0).params;
  EXPECT_EQ(params.a, args.a);
  EXPECT_EQ(params.a_ld, 50257);
  EXPECT_EQ(params.k, 50257);
  EXPECT_EQ(params.map_a.words[0], 0u) << "no map of A";
  EXPECT_NE(params.map_b.words[0], 0u);
  EXPECT_EQ(params.b_ld, 768);
}

TEST_F(Strided, a_lone_column_of_an_mn_major_operand_keeps_its_stride) {
  Problem p{.m = 1, .n = 64, .k = 64, .a = {.major = Major::mn, .ld = 3}};
  gemm::Args args = args_for(p);
  const gemm::Kernel kernel = prepared(p);
  launched(gemm::launch(kernel, args, nullptr), 1);
  EXPECT_EQ(driver.launch(0).params.a_ld, 3);
}

TEST_F(Strided, run_sees_addresses_and_launch_names_the_remedy) {
  const Problem p = small_problem();
  gemm::Args args = args_for(p);
  args.a = shifted(args.a, 2);
  const gemm::Kernel aligned = prepared(p);
  const Result<void> refusal = gemm::launch(aligned, args, nullptr);
  refused(refusal, ErrorCode::misaligned, "plan with a.unaligned = true");
  launched(gemm::run(device(), p, args, nullptr), 1);
  args.a = shifted(args.a, 1);  // not the address of an element
  EXPECT_EQ(gemm::run(device(), p, args, nullptr).error().code, ErrorCode::misaligned);
  args = args_for(p);
  args.d = shifted(args.d, 2);
  launched(gemm::run(device(), p, args, nullptr), 2);
  Problem fp8 = p;
  fp8.a.type = fp8.b.type = DType::e4m3;
  args = args_for(fp8);
  args.b = shifted(args.b, 8);
  EXPECT_NE(gemm::run(device(), fp8, args, nullptr).error().message.find("multiple of 16"),
            std::string::npos);
}

TEST_F(Strided, overrides_that_need_tma_are_refused_by_their_rule) {
  Problem p = small_problem();
  p.k = 100;
  const auto refusal = [&](const PlanOverrides& o) {
    const Result<Plan> plan = gemm::plan(p, device().info(), o);
    return plan ? std::string("planned") : plan.error().message;
  };
  EXPECT_NE(refusal({.cluster = ClusterShape{2, 1}}).find("not multicast"), std::string::npos);
  EXPECT_NE(refusal({.schedule = Schedule::plain}).find("16 bytes at a time"), std::string::npos);
  EXPECT_EQ(refusal({.schedule = Schedule::cooperative, .cluster = ClusterShape{1, 1, 2}}), "planned");
}

TEST_F(Strided, records_of_aligned_operands_are_not_for_them) {
  Problem p = small_problem(), odd = small_problem();
  odd.a.unaligned = true;
  EXPECT_NE(recipe_of(*check_problem(p)), recipe_of(*check_problem(odd)));
  EXPECT_EQ(recipe_of(example_of(recipe_of(odd))), recipe_of(odd));
  odd.a.unaligned = false;
  odd.a.ld = 129;
  EXPECT_TRUE(recipe_of(*check_problem(odd)).strided_a);
  EXPECT_FALSE(recipe_of(*check_problem(odd)).strided_b);
}

TEST_F(Strided, every_candidate_can_run) {
  for (Problem p : {vocabulary_dgrad(), Problem{.m = 3, .n = 4097, .k = 1003}}) {
    const auto candidates = gemm::candidates(p, device().info());
    ASSERT_TRUE(candidates.ok());
    for (const Plan& plan : *candidates) {
      EXPECT_TRUE(loads_strided(plan.config));
      EXPECT_FALSE(is_plain(plan.config.schedule));
      EXPECT_TRUE(gemm::sealed(plan, device().info()).ok()) << to_string(plan.config);
    }
  }
}

}  // namespace
}  // namespace sluice
