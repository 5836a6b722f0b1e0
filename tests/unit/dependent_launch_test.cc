// SPDX-License-Identifier: Apache-2.0
// Dependent launches from the plan to the driver. The overlap that a plan states is in its kernel's code, and
// only a kernel whose code waits is launched early. To see it fail: remove a wait from kernels/plain.cuh or
// gemm.cuh.
#include <sluice/plan/text/units.h>
#include <sluice/run/jit/code_scan.h>
#include <sluice/run/jit/compiler.h>

#include "launch_fixture.h"

namespace sluice {
namespace {

constexpr Overlap kOverlap{.wait = Wait::weights_first, .trigger = Trigger::at_start};

std::string cubin_of(const KernelConfig& config) {
  const auto compiler = Compiler::load("");
  EXPECT_TRUE(compiler.ok());
  const Result<Cubin> cubin = (*compiler)->compile(unit_text(config));
  EXPECT_TRUE(cubin.ok()) << (cubin.ok() ? "" : cubin.error().message);
  return cubin.ok() ? cubin->image : "";
}

KernelConfig config_with(Schedule schedule, const Overlap& overlap) {
  PlanOverrides overrides{.schedule = schedule, .overlap = overlap};
  const Result<Plan> plan = gemm::plan({.m = 8, .n = 512, .k = 1024}, DeviceInfo{}, overrides);
  EXPECT_TRUE(plan.ok());
  return plan.ok() ? plan->config : KernelConfig{};
}

TEST(overlap, is_in_the_code_of_kernels_that_are_told_so_and_in_no_other) {
  for (const Schedule schedule :
       {Schedule::plain, Schedule::plain_wgmma, Schedule::ping_pong, Schedule::cooperative}) {
    const std::string with = cubin_of(config_with(schedule, kOverlap));
    EXPECT_TRUE(holds(with, Opcode::wait_prerequisites)) << name_of(schedule);
    EXPECT_TRUE(holds(with, Opcode::launch_dependents)) << name_of(schedule);
    const std::string without = cubin_of(config_with(schedule, {}));
    EXPECT_FALSE(holds(without, Opcode::wait_prerequisites)) << name_of(schedule);
    EXPECT_FALSE(holds(without, Opcode::launch_dependents)) << name_of(schedule);
    const std::string late = cubin_of(config_with(schedule, {.trigger = Trigger::after_loads}));
    EXPECT_TRUE(holds(late, Opcode::launch_dependents)) << name_of(schedule);
  }
}

TEST(overlap, the_scan_of_something_else_finds_nothing_and_stays_inside) {
  const std::string whole = cubin_of(config_with(Schedule::plain, kOverlap));
  EXPECT_FALSE(holds(std::string(), Opcode::wait_prerequisites));
  EXPECT_FALSE(
      holds(std::string("no ELF file, and long enough for a header of one, says this very text........."),
            Opcode::wait_prerequisites));
  for (size_t length = 1; length < whole.size(); length += 97)  // truncated at various bytes
    (void)holds(std::span(whole.data(), length), Opcode::wait_prerequisites);
}

TEST(overlap, says_nothing_about_which_plan_is_best) {
  const Problem problem{.m = 16, .n = 4096, .k = 4096};
  const Result<Plan> alone = gemm::plan(problem, DeviceInfo{});
  Result<Plan> chained = gemm::plan(problem, DeviceInfo{}, {.overlap = kOverlap});
  ASSERT_TRUE(alone.ok() && chained.ok());
  EXPECT_EQ(chained->config.overlap, kOverlap);
  chained->config.overlap = {};
  EXPECT_EQ(chained->config, alone->config);
}

TEST(overlap, is_refused_of_a_product_of_two_kernels) {
  const Problem problem{.m = 256, .n = 256, .k = 131072};
  const Result<Plan> alone = gemm::plan(problem, DeviceInfo{});
  ASSERT_TRUE(alone.ok());
  ASSERT_EQ(alone->config.combine, Combine::separate) << "or there is nothing to see here";
  const Result<Plan> chained = gemm::plan(problem, DeviceInfo{}, {.overlap = kOverlap});
  ASSERT_TRUE(chained.ok());
  EXPECT_NE(chained->config.combine, Combine::separate);
  const Result<Plan> forced =
      gemm::plan(problem, DeviceInfo{}, {.splits = 8, .combine = Combine::separate, .overlap = kOverlap});
  ASSERT_FALSE(forced.ok());
  EXPECT_EQ(forced.error().code, ErrorCode::invalid_config);
}

using OverlapLaunch = LaunchTest;

TEST_F(OverlapLaunch, asks_for_a_dependent_launch_only_if_the_plan_waits) {
  int launches = 0;
  for (const Wait wait : {Wait::none, Wait::first, Wait::weights_first}) {
    Result<Plan> plan = gemm::plan(small_problem(), device().info(), {.overlap = {.wait = wait}});
    ASSERT_TRUE(plan.ok());
    const Result<gemm::Kernel> kernel = gemm::prepare(device(), *plan);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    gemm::Args args = args_for(small_problem());
    args.prefetch = {args.b, 4096};
    args.hand_off = {args.b, 1 << 20};
    launched(gemm::launch(*kernel, args, nullptr), ++launches);
    EXPECT_EQ(driver.launch(launches - 1).dependent, wait != Wait::none) << name_of(wait);
    EXPECT_EQ(driver.launch(launches - 1).params.hand_off.bytes, 1 << 20);
  }
}

}  // namespace
}  // namespace sluice
