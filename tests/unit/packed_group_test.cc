// SPDX-License-Identifier: Apache-2.0
// Products of groups with packed weights from plan to launch, on the fake driver: the narrow kernel, what is
// passed to it, and refusals. To see it fail: give the launch rows of CTAs for m rows of one group.
#include <sluice/plan/dense/cluster_grid.h>

#include "packed_launch_fixture.h"

namespace sluice {
namespace {

class PackedGroups : public PackedLaunchTest {
 protected:
  static Problem problem(i64 rows = 64, i64 experts = 16) {
    Problem p = PackedProblem{.m = rows, .n = 256, .k = 512, .weights = {.group = 128, .scale = DType::bf16}};
    p.batch = experts, p.groups.kind = GroupKind::ends;
    return p;
  }
  gemm::Kernel kernel(const Problem& p, const PlanOverrides& overrides = {}) {
    const Result<Plan> plan = gemm::plan(p, device().info(), overrides);
    EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
    const Result<gemm::Kernel> made = gemm::prepare(device(), *plan);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return *made;
  }
  gemm::Args arguments(const Problem& p) {
    return {.a = driver.memory(p.m * p.k * 2 + 256),
            .b = driver.memory(p.batch * blob_bytes(p) + 256),
            .d = driver.memory(p.m * p.n * 4 + 256),
            .bias = driver.memory(p.batch * p.n * 4 + 256),
            .groups = static_cast<const int*>(driver.memory(4 * p.batch))};
  }
  void refused(const Problem& p, ErrorCode code, const std::string& words,
               const PlanOverrides& overrides = {}) {
    const Result<Plan> plan = gemm::plan(p, device().info(), overrides);
    ASSERT_FALSE(plan.ok()) << words;
    EXPECT_EQ(plan.error().code, code) << plan.error().message;
    EXPECT_NE(plan.error().message.find(words), std::string::npos) << plan.error().message;
  }
};

TEST_F(PackedGroups, are_the_narrow_kernels) {
  for (const i64 rows : {1, 8, 64, 1000, 30000})
    for (const bool gated : {false, true}) {
      Problem p = problem(rows);
      p.epilogue.gated = gated;
      if (gated) p.epilogue.activation = Activation::silu;
      const Result<Plan> plan = gemm::plan(p, device().info());
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      EXPECT_EQ(plan->config.schedule, Schedule::narrow);
      EXPECT_EQ(plan->config.groups, (GroupConfig{GroupKind::ends, 32}));
      EXPECT_EQ(plan->config.held_rows, 0);
      EXPECT_GT(plan->estimate.total_us, 0);
    }
  EXPECT_EQ(gemm::plan(problem(16), device().info())->config.tile.m, 8) << "one row of a group is likely";
  EXPECT_GT(gemm::plan(problem(2000), device().info())->config.tile.m, 8);
}

TEST_F(PackedGroups, pass_their_table_and_as_many_ctas_as_any_table_needs) {
  Problem p = problem();
  p.epilogue.bias = Bias::column;
  const gemm::Kernel made = kernel(p, PackedOverrides{.token_blocks = 2, .row_blocks = 4, .parts = 2});
  const gemm::Args args = arguments(p);
  ASSERT_TRUE(gemm::launch(made, args, nullptr).ok());
  ASSERT_EQ(driver.launches(), 1);
  const LaunchRecord& launch = driver.launch(0);
  EXPECT_EQ(launch.grid_x, 8u) << "4 tiles of 64 rows in 2 parts";
  EXPECT_EQ(launch.grid_y, 64u / 16 + 16) << "each group may have a tile that it does not fill";
  const NarrowParams& passed = launch.narrow;
  EXPECT_EQ(passed.m, 64);
  EXPECT_EQ(passed.x, args.a);
  EXPECT_EQ(passed.weights, args.b);
  EXPECT_EQ(passed.group_numbers, args.groups);
  EXPECT_EQ(passed.group_count, 16);
  EXPECT_EQ(passed.group_pitch, 1);
  EXPECT_EQ(passed.blob_bytes, blob_bytes(p));
}

TEST_F(PackedGroups, need_their_table_and_every_blob) {
  const gemm::Kernel made = kernel(problem());
  gemm::Args args = arguments(problem());
  args.groups = nullptr;
  const Result<void> none = gemm::launch(made, args, nullptr);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::invalid_pointer);
  EXPECT_NE(none.error().message.find("groups"), std::string::npos) << none.error().message;
  const Result<Operands> operands = gemm::operands_of(made.plan().problem);
  ASSERT_TRUE(operands.ok());
  EXPECT_EQ(data_bytes((*operands)[gemm::kB].memory), 16 * blob_bytes(problem()));
  EXPECT_EQ((*operands)[gemm::kB].role, Role::chosen);
}

TEST_F(PackedGroups, that_cannot_be_are_refused) {
  Problem p = problem();
  p.groups.kind = GroupKind::along_k;
  refused(p, ErrorCode::invalid_type, "groups.kind = along_k: packed weights take ends, counts or slots");
  p = problem(), p.batch = kMostGroups + 1;
  refused(p, ErrorCode::invalid_size, "at most 1024");
  p = problem(), p.batch = -1;
  refused(p, ErrorCode::invalid_size, "batch = -1 must not be negative");
  p = problem(), p.groups.pitch = 0;
  refused(p, ErrorCode::invalid_argument, "groups.pitch = 0");
  p = problem(), p.groups = {}, p.batch = 2;
  refused(p, ErrorCode::invalid_size, "batch = 2 must be 1");
  p = problem(), add_residual(p);
  refused(p, ErrorCode::invalid_type, "a norm or residual");
  p = problem(8), p.norm_a = true;
  refused(p, ErrorCode::invalid_type, "a norm or residual");
  p = problem(), p.a.type = p.b.type = DType::e4m3, p.b.packed.order = FragmentOrder::byte;
  refused(p, ErrorCode::invalid_type, "A is e4m3 and groups.kind = ends");
  refused(problem(), ErrorCode::invalid_config, "groups are the narrow kernel's",
          {.schedule = Schedule::strip});
  refused(problem(), ErrorCode::invalid_config, "groups read their table before weights",
          {.overlap = {.wait = Wait::weights_first}});
  refused(problem(600'000), ErrorCode::invalid_config, "65,535 tiles", PackedOverrides{.token_blocks = 1});
}

}  // namespace
}  // namespace sluice
