// SPDX-License-Identifier: Apache-2.0
// Launches that add to D. If there is nothing to add, nothing is launched, and slices added in any order need
// no workspace. A plan made by hand may not violate the promise of equal bits. To see it fail: remove
// leaves_d from launch(), or the check of Combine::add from gemm::sealed.
#include "launch_fixture.h"

namespace sluice {
namespace {

Problem gradient(bool deterministic) {
  Problem p = small_problem();
  p.d.type = DType::fp32;
  p.epilogue.update = Update::add;
  p.deterministic = deterministic;
  return p;
}

const PlanOverrides kInTwo{.schedule = Schedule::cooperative,
                           .tile_m = 128,
                           .tile_n = 128,
                           .cluster = ClusterShape{1, 1},
                           .splits = 2};

using LaunchAdd = LaunchTest;

TEST_F(LaunchAdd, nothing_to_add_launches_nothing) {
  const gemm::Kernel kernel = prepared(gradient(true));
  gemm::Args args = args_for(gradient(true));
  launched(gemm::launch(kernel, args, nullptr), 1);
  args.alpha = 0.0f;
  args.a = args.b = nullptr;
  launched(gemm::launch(kernel, args, nullptr), 1);
  launched(gemm::run(device(), gradient(true), args, nullptr), 1);
  Problem empty = gradient(true);
  empty.k = 0;
  args.alpha = 1.0f;
  launched(gemm::launch(prepared(empty), args, nullptr), 1);
  empty.epilogue.update = Update::set;
  launched(gemm::launch(prepared(empty), args, nullptr), 2);  // D = 0
}

TEST_F(LaunchAdd, is_still_refused_where_its_arguments_are_wrong) {
  const gemm::Kernel kernel = prepared(gradient(true));
  gemm::Args args = args_for(gradient(true));
  args.alpha = 0.0f;
  args.d = nullptr;
  refused(gemm::launch(kernel, args, nullptr), ErrorCode::invalid_pointer, "D is null");
  args = args_for(gradient(true));
  args.d = const_cast<void*>(args.a);
  refused(gemm::launch(kernel, args, nullptr), ErrorCode::aliasing, "overlaps");
}

TEST_F(LaunchAdd, parts_in_any_order_need_no_workspace) {
  const gemm::Kernel kernel = prepared(gradient(false), kInTwo);
  EXPECT_EQ(kernel.plan().config.combine, Combine::add);
  EXPECT_EQ(kernel.plan().workspace_bytes, 0);
  EXPECT_EQ(kernel.plan().split.clusters, 16);
  launched(gemm::launch(kernel, args_for(gradient(false)), nullptr), 1);
  const gemm::Kernel ordered = prepared(gradient(true), kInTwo);
  EXPECT_TRUE(uses_workspace(ordered.plan().config));
  EXPECT_GT(ordered.plan().workspace_bytes, 0);
}

TEST_F(LaunchAdd, a_plan_by_hand_may_not_break_the_promise_of_the_same_bits) {
  Plan plan = prepared(gradient(false), kInTwo).plan();
  plan.problem.deterministic = true;
  const Result<gemm::Kernel> broken = gemm::prepare(device(), plan);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, ErrorCode::invalid_config);
  EXPECT_NE(broken.error().message.find("deterministic = false"), std::string::npos)
      << broken.error().message;
  plan.config.combine = Combine::last_arriver;
  EXPECT_TRUE(gemm::prepare(device(), plan).ok());
  plan.config.combine = Combine::none;
  EXPECT_FALSE(gemm::prepare(device(), plan).ok());
  plan.problem.epilogue.update = Update::set;
  EXPECT_FALSE(gemm::prepare(device(), plan).ok()) << "the kernel would add";
}

}  // namespace
}  // namespace sluice
