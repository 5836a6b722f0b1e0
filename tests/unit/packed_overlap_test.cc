// SPDX-License-Identifier: Apache-2.0
// Dependent launches of packed kernels. The plan's overlap is in the kernel's code, only such a kernel is
// launched early, and the default overlap adds no text to the unit. To see it fail: remove a wait from
// kernels/narrow.cuh, strip.cuh or wide.cuh, or leave `dependent` out of a fill().
#include <sluice/plan/text/units.h>
#include <sluice/run/jit/code_scan.h>
#include <sluice/run/jit/compiler.h>

#include "packed_launch_fixture.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

constexpr Overlap kOverlap{.wait = Wait::weights_first, .trigger = Trigger::at_start};

/// Returns a problem for each kernel. `kernel`: its index in PackedConfig.
PackedProblem problem_of(size_t kernel) {
  PackedProblem problem{
      .m = kernel == 1 ? 200 : 20, .n = 512, .k = 2048, .weights = {.group = 64}, .ld_x = 2048, .ld_d = 512};
  if (kernel == 2) {
    problem.x = DType::e4m3;
    problem.scale_x = ScaleMode::vector;
    problem.weights.order = FragmentOrder::byte;
  }
  return problem;
}

PackedOverrides overrides_of(size_t kernel, const Overlap& overlap) {
  PackedOverrides overrides{.overlap = overlap};
  if (kernel == 0) overrides.warps = 4;
  if (kernel == 1) overrides.cluster_n = 2;
  return overrides;
}

PackedConfig config_of(size_t kernel, const Overlap& overlap) {
  const Result<Plan> plan = gemm::plan(problem_of(kernel), DeviceInfo{}, overrides_of(kernel, overlap));
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message);
  const PackedConfig config = packed_config_of(plan->config);
  EXPECT_EQ(config.index(), kernel);
  return config;
}

std::string cubin_of(const PackedConfig& config) {
  const auto compiler = Compiler::load("");
  EXPECT_TRUE(compiler.ok());
  const Result<Cubin> cubin = (*compiler)->compile(unit_text(config));
  EXPECT_TRUE(cubin.ok()) << (cubin.ok() ? "" : cubin.error().message);
  EXPECT_EQ(cubin->report.spill_bytes, 0) << to_string(config);
  return cubin->image;
}

TEST(packed_overlap, is_in_the_code_of_kernels_that_are_told_so_and_in_no_other) {
  for (size_t kernel = 0; kernel < std::variant_size_v<PackedConfig>; ++kernel) {
    for (const Wait wait : {Wait::first, Wait::weights_first}) {
      const std::string with = cubin_of(config_of(kernel, {wait, Trigger::at_start}));
      EXPECT_TRUE(holds(with, Opcode::wait_prerequisites)) << kernel;
      EXPECT_TRUE(holds(with, Opcode::launch_dependents)) << kernel;
    }
    const std::string without = cubin_of(config_of(kernel, {}));
    EXPECT_FALSE(holds(without, Opcode::wait_prerequisites)) << kernel;
    EXPECT_FALSE(holds(without, Opcode::launch_dependents)) << kernel;
    const std::string late = cubin_of(config_of(kernel, {.trigger = Trigger::after_loads}));
    EXPECT_TRUE(holds(late, Opcode::launch_dependents)) << kernel;
  }
}

TEST(packed_overlap, is_in_the_text_of_a_config_only_if_there_is_one) {
  for (size_t kernel = 0; kernel < std::variant_size_v<PackedConfig>; ++kernel) {
    EXPECT_EQ(to_string(config_of(kernel, {})).find("overlap"), std::string::npos);
    EXPECT_NE(to_string(config_of(kernel, kOverlap))
                  .find(", .overlap = {.wait = sluice::Wait::weights_first, .trigger = "
                        "sluice::Trigger::at_start}"),
              std::string::npos)
        << to_string(config_of(kernel, kOverlap));
    EXPECT_NE(short_name(config_of(kernel, kOverlap)).find(" wait:weights_first trigger:at_start"),
              std::string::npos);
  }
}

TEST(packed_overlap, says_nothing_about_which_plan_is_best) {
  for (size_t kernel = 0; kernel < std::variant_size_v<PackedConfig>; ++kernel) {
    const Result<Plan> alone = gemm::plan(problem_of(kernel), DeviceInfo{});
    Result<Plan> chained = gemm::plan(problem_of(kernel), DeviceInfo{}, {.overlap = kOverlap});
    ASSERT_TRUE(alone.ok() && chained.ok());
    EXPECT_EQ(chained->source, alone->source) << "records are looked at";
    EXPECT_EQ(chained->config.overlap, kOverlap);
    chained->config.overlap = {};
    EXPECT_TRUE(chained->config == alone->config) << kernel;
  }
}

using PackedOverlapLaunch = PackedLaunchTest;

TEST_F(PackedOverlapLaunch, asks_for_a_dependent_launch_only_if_the_plan_waits) {
  int launches = 0;
  for (size_t kernel = 0; kernel < std::variant_size_v<PackedConfig>; ++kernel)
    for (const Wait wait : {Wait::none, Wait::first, Wait::weights_first}) {
      const PackedProblem problem = problem_of(kernel);
      gemm::Args args = args_of(problem);
      args.prefetch = {args.b, 4096};
      args.hand_off = {args.b, 1 << 20};
      const Result<void> done =
          gemm::launch(made(problem, overrides_of(kernel, {.wait = wait})), args, nullptr);
      ASSERT_TRUE(done.ok()) << done.error().message;
      ASSERT_EQ(driver.launches(), ++launches);
      const LaunchRecord& launch = driver.launch(launches - 1);
      EXPECT_EQ(launch.dependent, wait != Wait::none) << kernel << " " << name_of(wait);
      const WarmRange first[] = {launch.narrow.prefetch, launch.wide.prefetch, launch.strip.prefetch};
      const WarmRange next[] = {launch.narrow.hand_off, launch.wide.hand_off, launch.strip.hand_off};
      EXPECT_EQ(first[kernel].data, args.b);
      EXPECT_EQ(first[kernel].bytes, 4096);
      EXPECT_EQ(next[kernel].bytes, 1 << 20);
    }
}

}  // namespace
}  // namespace sluice
