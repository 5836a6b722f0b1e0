// SPDX-License-Identifier: Apache-2.0
// An operation in one file outside the library (tests/seventh/scale.h) is planned, compiled, launched,
// cached, and used as a step of a chain. To see one fail: give y the role `read`, leave Launch::wait() out of
// the kernel, or let ShapedStep::plan ignore the requested overlap.
#include <cstring>

#include <sluice/chain/chain.h>
#include <sluice/chain/shaped_step.h>
#include <sluice/run/jit/code_scan.h>
#include <sluice/run/jit/compiler.h>
#include <sluice/run/ops/norm.h>

#include "allocation_counter.h"
#include "chain_fixture.h"
#include "tests/seventh/scale.h"
#include "tests/skip_or_fail.h"

namespace sluice {
namespace {

using seventh::Scale;
using seventh::ScaleOptions;
using seventh::ScaleParams;

constexpr i64 kCount = 4096;

class SeventhOp : public ChainTest {
 protected:
  Scale::Args args(i64 count = kCount) {
    return {.shape = {count},
            .args = {.x = static_cast<const float*>(driver.memory(kCount * 4)),
                     .y = static_cast<float*>(driver.memory(kCount * 4)),
                     .factor = 3}};
  }
  Result<void> run(const Scale::Args& args, const ScaleOptions& options = {}) {
    return ops::run<Scale>(device(), options, args, nullptr);
  }
};

TEST_F(SeventhOp, is_run_and_kept_without_an_allocation) {
  const Scale::Args given = args();
  launched(run(given), 1);
  EXPECT_EQ(driver.launch(0).grid_x, 4u);
  const long before = allocations_of_this_thread();
  const bool ok = run(given).ok();
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_TRUE(ok);
  EXPECT_EQ(ops::kept<Scale>(device()).size(), 1u);
  launched(run(given, {.negate = true}), 3);
  EXPECT_EQ(ops::kept<Scale>(device()).size(), 2u);
  launched(run(args(0)), 3);
}

TEST_F(SeventhOp, is_checked_by_its_table_alone) {
  Scale::Args bad = args();
  bad.args.x = nullptr;
  refused(run(bad), ErrorCode::invalid_pointer, "x is null: pass device memory of 16384 bytes");
  bad = args();
  bad.args.y = shifted(bad.args.y, 2);
  refused(run(bad), ErrorCode::misaligned, "y = ");
  bad = args();
  bad.args.y = const_cast<float*>(shifted(bad.args.x, 4));
  refused(run(bad), ErrorCode::aliasing, "overlaps x");
  bad.args.x = static_cast<const float*>(driver.memory(kCount * 4, 0, CU_MEMORYTYPE_HOST));
  refused(run(bad), ErrorCode::invalid_pointer, "host memory");
  Scale::Args in_place = args();
  in_place.args.y = const_cast<float*>(in_place.args.x);
  launched(run(in_place), 1);
}

TEST_F(SeventhOp, is_refused_in_a_capture_that_came_first) {
  const StreamHandle stream = *StreamHandle::create(device());
  const Scale::Args given = args();
  const auto captured = Graph::capture(device(), stream.get(),
                                       [&] { return ops::run<Scale>(device(), {}, given, stream.get()); });
  ASSERT_FALSE(captured.ok());
  EXPECT_EQ(captured.error().code, ErrorCode::not_prepared) << captured.error().message;
  ASSERT_TRUE(ops::make_ready<Scale>(device(), std::vector<ScaleOptions>{{}}).ok());
  EXPECT_TRUE(Graph::capture(device(), stream.get(), [&] {
                return ops::run<Scale>(device(), {}, given, stream.get());
              }).ok());
}

TEST_F(SeventhOp, is_a_step_of_a_chain) {
  std::vector<ChainStep> steps = links(3);
  Scale::Args given = args(kRows * kWidth / 4);
  given.args.x = static_cast<const float*>(product(steps[0]).args.d);
  given.args.y = static_cast<float*>(product(steps[0]).args.d);
  steps[1] = {.work = op_step<Scale>({}, given), .name = "scale", .hand_off_bytes = 1 << 20};
  product(steps[2]).problem.k = 1 << 15;  // so large that the rings of its launch cannot hold all weights
  product(steps[2]).args.a = driver.memory(kRows << 15);
  product(steps[2]).args.b = driver.memory(kWidth << 15);
  const ChainPlan plan = planned(steps);
  EXPECT_EQ(plan.steps[1].overlap, (Overlap{Wait::weights_first, Trigger::at_start, Spacing::even}));
  ASSERT_NE(plan.plans[static_cast<size_t>(plan.steps[1].plan)].get<ScaleOptions>(), nullptr);
  EXPECT_NE(explain(plan).find("scale 1024"), std::string::npos) << explain(plan);
  const Chain chain = made(steps);
  launched(chain.enqueue(nullptr), 3);
  EXPECT_TRUE(driver.launch(1).dependent);
  EXPECT_GT(total_bytes(plan.steps[1].hand_off), 0) << "of the next product's weights";
  EXPECT_EQ(chain.programmatic_edges(), 2);
}

TEST_F(SeventhOp, may_not_write_weights_that_are_read_early) {
  std::vector<ChainStep> steps = links(3);
  Scale::Args given = args(kRows * kWidth / 4);
  given.args.y = static_cast<float*>(const_cast<void*>(product(steps[2]).args.b));
  steps[1] = {.work = op_step<Scale>({}, given), .name = "scale"};
  refused_plan(steps, ErrorCode::aliasing, "step 2 (link2): B (");
  given = args();
  given.args.hand_off.bytes = 16;
  steps[1] = {.work = op_step<Scale>({}, given), .name = "scale"};
  refused_plan(steps, ErrorCode::invalid_argument, "step 1 (scale): ");
  steps[1] = {.work = op_step<Scale>({}, args(-1)), .name = "scale"};
  refused_plan(steps, ErrorCode::invalid_size, "count = -1");
}

TEST_F(SeventhOp, shares_a_plan_with_its_own_kind_alone) {
  const ShapedStep<Scale> plain({}, args()), equal({}, args(16)), negated({.negate = true}, args());
  const ShapedStep<ops::NormOp> norm({}, {});
  EXPECT_TRUE(plain.shares_plan(equal));
  EXPECT_FALSE(plain.shares_plan(negated));
  EXPECT_FALSE(plain.shares_plan(norm));
  EXPECT_FALSE(norm.shares_plan(plain));
  std::vector<ChainStep> steps = links(2);
  steps[1] = {.work = OpStep{}, .name = "empty"};
  refused_plan(steps, ErrorCode::invalid_argument, "its OpStep is empty");
}

TEST(seventh_op, compiles_and_waits_where_a_chain_lets_it_begin_early) {
  const auto compiler = Compiler::load("");
  if (!compiler) SLUICE_SKIP_OR_FAIL(compiler.error().message);
  for (const Wait wait : {Wait::none, Wait::first, Wait::weights_first}) {
    const auto units = Scale::units({.overlap = {wait, Trigger::at_start}});
    const auto cubin = (*compiler)->compile(units[0]);
    ASSERT_TRUE(cubin) << cubin.error().message;
    EXPECT_EQ(holds(cubin->image, Opcode::wait_prerequisites), wait != Wait::none) << name_of(wait);
    EXPECT_EQ(cubin->report.spill_bytes, 0);
  }
}

}  // namespace
}  // namespace sluice
