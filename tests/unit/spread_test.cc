// SPDX-License-Identifier: Apache-2.0
// Resources that launches of one wave request so that their CTAs are spread over the SMs. Two consecutive
// launches may be of different kinds. To see it fail: leave out of run/device/spread.h the 1 KB that a CTA
// uses beyond its request, or the granularity of registers.
#include <gtest/gtest.h>

#include <array>

#include <sluice/plan/text/norm_units.h>
#include <sluice/plan/text/quantize_units.h>
#include <sluice/plan/text/units.h>
#include <sluice/run/device/spread.h>
#include <sluice/run/jit/compiler.h>

#include "launch_fixture.h"
#include "tests/packed_problems.h"

namespace sluice {
namespace {

constexpr Overlap kByRegisters{Wait::weights_first, Trigger::at_start, Spacing::registers};

LaunchShape spread(const Overlap& overlap, int registers, LaunchShape shape) {
  shape.dependent = overlap.wait != Wait::none;
  spread_ctas(overlap, registers, {}, shape);
  return shape;
}

TEST(spread, says_nothing_of_a_launch_that_does_not_overlap) {
  EXPECT_FALSE(overlaps({.spacing = Spacing::registers}));
  EXPECT_TRUE(overlaps({.wait = Wait::first}));
  EXPECT_TRUE(overlaps({.trigger = Trigger::after_loads}));
}

TEST(spread, ctas_of_one_dependent_wave_do_not_double_up) {
  const auto smem = [](u32 used, u32 ctas, u32 cluster, Wait wait) {
    return spread({wait}, 64, {.grid_x = ctas, .block_x = 256, .cluster_x = cluster, .smem_bytes = used})
        .smem_bytes;
  };
  EXPECT_EQ(smem(80 << 10, 128, 1, Wait::first), u32{kAloneOnSm});
  EXPECT_GT(2 * (kAloneOnSm + 1024), 228 << 10) << "two would fit";
  EXPECT_LE(kAloneOnSm + 1024 + (112 << 10) + 1024, 228 << 10) << "no other kernel's CTA would fit beside it";
  EXPECT_EQ(smem(80 << 10, 128, 1, Wait::none), 80u << 10) << "alone it finds the GPU empty";
  EXPECT_EQ(smem(80 << 10, 192, 1, Wait::first), 80u << 10) << "more than one for an SM";
  EXPECT_EQ(smem(80 << 10, 124, 4, Wait::first), 80u << 10) << "31 clusters of 4 have no room at once";
  EXPECT_EQ(smem(200 << 10, 132, 1, Wait::first), 200u << 10);
  EXPECT_EQ(most_smem_bytes({Wait::first}, 80 << 10), kAloneOnSm) << "the module must allow what is asked";
  EXPECT_EQ(most_smem_bytes({}, 80 << 10), 80 << 10);
}

TEST(spread, evenly_each_sm_has_room_for_its_share_and_no_more) {
  const auto smem = [](u32 used, u32 ctas, u32 cluster = 1) {
    return spread({Wait::first, Trigger::at_start, Spacing::even}, 64,
                  {.grid_x = ctas, .block_x = 256, .cluster_x = cluster, .smem_bytes = used})
        .smem_bytes;
  };
  for (u32 share = 1; share <= kMostEvenCtas; ++share)
    for (const u32 ctas : {132 * share, 132 * (share - 1) + 1}) {
      const u32 asked = smem(8 << 10, ctas);
      EXPECT_GT((share + 1) * (asked + 1024), 228u << 10) << ctas << " CTAs: one more would fit";
      EXPECT_LE(share * (asked + 1024), 228u << 10) << ctas << " CTAs: they do not fit";
      EXPECT_EQ(asked % 128, 0u);
    }
  EXPECT_EQ(smem(80 << 10, 128), u32{kAloneOnSm}) << "one wave is spaced as by memory";
  EXPECT_EQ(smem(100 << 10, 256), 100u << 10) << "two fit as it is, and no more";
  EXPECT_EQ(smem(8 << 10, 132 * kMostEvenCtas + 1), 8u << 10);
  EXPECT_EQ(smem(8 << 10, 124, 4), smem(8 << 10, 240, 4)) << "31 clusters of 4 are two on an SM";
  EXPECT_EQ(most_smem_bytes({Wait::first, Trigger::at_start, Spacing::even}, 8 << 10), kAloneOnSm);
}

TEST(spread, registers_are_the_schedulers) {
  EXPECT_EQ(warps_of_sm(168), 12);
  EXPECT_EQ(warps_of_sm(104), 16) << "one of 104 is 3,328, and a scheduler has 16,384";
  EXPECT_EQ(warps_of_sm(97), 16);
  EXPECT_EQ(most_registers(256, 2), 128);
  EXPECT_EQ(most_registers(576, 1), 96) << "18 warps are five of one scheduler";
  EXPECT_EQ(most_registers(128, 1), 255);
}

TEST(spread, by_registers_leaves_shared_memory_and_room_for_one_of_the_other_kind) {
  const auto launch_of = [](int registers, u32 threads, u32 ctas = 128) {
    return spread(kByRegisters, registers,
                  {.grid_x = ctas, .block_x = threads, .cluster_x = 1, .smem_bytes = 80 << 10});
  };
  for (int registers = 33; registers <= 255; ++registers) {
    const LaunchShape made = launch_of(registers, 128);
    const int warps = static_cast<int>(made.block_x) / 32, room = warps_of_sm(registers);
    EXPECT_GT(2 * warps, room) << registers << ": two would fit";
    EXPECT_TRUE(registers > 96 || warps + 8 <= room)
        << registers << ": 8 warps of another kernel would not fit beside it";
    EXPECT_EQ(made.smem_bytes, 80u << 10);
    EXPECT_EQ(made.block_x % 32, 0u);
  }
  EXPECT_EQ(launch_of(24, 128).block_x, 1024u) << "a CTA has no more";
  EXPECT_EQ(launch_of(168, 384).block_x, 384u) << "two do not fit as it is";
  EXPECT_EQ(launch_of(64, 256, 133).block_x, 256u) << "more than one for an SM";
  EXPECT_EQ(most_smem_bytes(kByRegisters, 80 << 10), 80 << 10);
  EXPECT_EQ(spread({.trigger = Trigger::at_start, .spacing = Spacing::registers}, 64,
                   {.grid_x = 64, .block_x = 128, .cluster_x = 1})
                .block_x,
            128u)
      << "alone it finds the GPU empty";
  EXPECT_GT(spread(kByRegisters, 64, {.grid_x = 64, .block_x = 128, .cluster_x = 4}).block_x, 128u);
  const LaunchShape none = spread({Wait::first, Trigger::at_start, Spacing::none}, 64,
                                  {.grid_x = 64, .block_x = 128, .cluster_x = 1});
  EXPECT_EQ(none.smem_bytes, 0u);
  EXPECT_EQ(none.block_x, 128u);
}

/// Returns the number of registers that the compiler reports.
int registers_of(const std::string& unit) {
  const auto compiler = Compiler::load("");
  EXPECT_TRUE(compiler.ok());
  const Result<Cubin> cubin = (*compiler)->compile(unit);
  EXPECT_TRUE(cubin.ok()) << (cubin.ok() ? "" : cubin.error().message);
  EXPECT_EQ(cubin->report.spill_bytes, 0) << unit;
  return cubin->report.registers;
}

TEST(spread, by_registers_takes_none_from_those_that_work) {
  for (const Schedule schedule : {Schedule::plain, Schedule::plain_wgmma}) {
    std::array<int, 2> registers{};
    for (const Spacing spacing : {Spacing::memory, Spacing::registers}) {
      const Overlap overlap{Wait::weights_first, Trigger::at_start, spacing};
      const auto plan = gemm::plan({.m = 16, .n = 4096, .k = 4096}, DeviceInfo{},
                                   {.schedule = schedule, .overlap = overlap});
      ASSERT_TRUE(plan.ok());
      registers[static_cast<size_t>(spacing)] = registers_of(unit_text(plan->config));
    }
    EXPECT_NEAR(registers[0], registers[1], 8) << name_of(schedule);
  }
  for (const bool bytes : {false, true}) {
    PackedProblem p{.m = bytes ? 16 : 1, .n = 1280, .k = 8192, .weights = {.group = 128}};
    if (bytes) p.x = DType::e4m3, p.weights.order = FragmentOrder::byte;
    const auto plan = gemm::plan(p, DeviceInfo{}, {.overlap = kByRegisters});
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    const int threads = bytes ? threads_of(strip_of(plan->config)) : threads_of(narrow_of(plan->config));
    EXPECT_LE(registers_of(unit_text(plan->config)), most_registers(threads, 1)) << "or no CTA would fit";
  }
  EXPECT_LE(registers_of(norm_unit_text({.overlap = kByRegisters})), most_registers(kMaxNormThreads, 1));
  EXPECT_LE(registers_of(quantize_units(DType::bf16, Granularity::row, Gate::none, kByRegisters)[0]),
            most_registers(kQuantizeThreads, 2));
}

using SpreadLaunch = LaunchTest;

TEST_F(SpreadLaunch, by_registers_adds_threads_to_a_product) {
  const auto launched_with = [&](Spacing spacing) {
    const Result<Plan> plan =
        gemm::plan(small_problem(), device().info(),
                   {.schedule = Schedule::plain, .overlap = {Wait::first, Trigger::at_start, spacing}});
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    const Result<gemm::Kernel> kernel = gemm::prepare(device(), *plan);
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    const int before = driver.launches();
    launched(gemm::launch(*kernel, args_for(small_problem()), nullptr), before + 1);
    const LaunchRecord record = driver.launch(before);
    EXPECT_EQ(record.block_x, spacing == Spacing::registers
                                  ? std::max<u32>(static_cast<u32>(threads_of(plan->config)),
                                                  alone_threads(kernel->registers()))
                                  : static_cast<u32>(threads_of(plan->config)));
    const int used = smem_bytes(plan->config);
    EXPECT_EQ(record.smem_bytes,
              static_cast<u32>(spacing == Spacing::memory ? std::max(used, kAloneOnSm) : used));
  };
  launched_with(Spacing::memory);
  launched_with(Spacing::registers);
  launched_with(Spacing::none);
}

}  // namespace
}  // namespace sluice
