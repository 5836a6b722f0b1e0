// SPDX-License-Identifier: Apache-2.0
// Converts what kernels record to a layer's times, and checks that kernels record only on request. To see it
// fail: treat a visit's number as the launch's if grids differ in size, or let a layer begin at its first
// start.
#include <gtest/gtest.h>

#include <sluice/host/jit/cache.h>
#include <sluice/host/jit/compiler.h>
#include <sluice/host/jit/source.h>
#include <sluice/host/text/norm_units.h>
#include <sluice/host/text/quantize_units.h>

#include "bench/chain/timeline.h"

namespace sluice::bench {
namespace {

/// The words that one kernel recorded, for `grid` CTAs per visit.
class Memory {
 public:
  Memory() : words_(size_t{kTimelineVisits} * kTimelineCtas * kMoments) {}

  /// Records a launch. CTA i starts at start + i and exits at exit + i.
  void add(u32 grid, u32 start, u32 exit) {
    for (u32 cta = 0; cta < grid; ++cta) {
      u32* at = &words_[(size_t{visits_[cta]++} * kTimelineCtas + cta) * kMoments];
      at[static_cast<int>(Moment::start)] = start + cta;
      at[static_cast<int>(Moment::exit)] = exit + cta;
      at[static_cast<int>(Moment::sm)] = timeline_place(cta, grid);
    }
  }
  const std::vector<u32>& words() const { return words_; }

 private:
  std::vector<u32> words_;
  std::array<u32, kTimelineCtas> visits_{};
};

TEST(chain_timeline, visits_become_launches_in_the_order_of_the_clock) {
  Memory both, other;
  both.add(2, 1000, 2000);
  other.add(1, 2500, 3000);
  both.add(4, 3500, 4000);  // the grid is larger here, so CTAs 2 and 3 occur for the first time
  both.add(2, 4500, 5000);
  const std::vector<std::vector<u32>> modules{both.words(), other.words()};
  const std::vector<LaunchTimes> launches = launches_of(modules);
  ASSERT_EQ(launches.size(), 4u);
  const size_t ctas[] = {2, 1, 4, 2};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(launches[i].ctas.size(), ctas[i]) << i;
  EXPECT_EQ(launches[0].first_start(), 0);
  EXPECT_EQ(launches[2].last_exit(), 3003);
  EXPECT_EQ(launches[3].first_start(), 3500);
  EXPECT_EQ(launches[2].ctas[3].sm, 3);
  EXPECT_EQ(launches[2].ctas[3].of(Moment::first_math), kNever);
}

TEST(chain_timeline, the_clock_may_wrap) {
  Memory memory;
  memory.add(1, 0xFFFFFF00, 0xFFFFFF80);
  memory.add(1, 0x00000100, 0x00000200);
  const std::vector<std::vector<u32>> modules{memory.words()};
  const std::vector<LaunchTimes> launches = launches_of(modules);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].last_exit(), 0x80);
  EXPECT_EQ(launches[1].first_start(), 0x200);
}

TEST(chain_timeline, a_layer_begins_when_the_one_before_it_has_ended) {
  Memory first, second;
  for (u32 layer = 0; layer < 5; ++layer) {  // each layer takes 10 us, the third one 14
    const u32 at = 1000 + 10000 * layer + (layer > 2 ? 4000 : 0);
    first.add(1, at, at + 4000);
    // Starts early, while the previous launch still runs.
    second.add(2, at + 3000, at + 7999 + (layer == 2 ? 4000 : 0));
  }
  const std::vector<std::vector<u32>> modules{first.words(), second.words()};
  const std::vector<StepTimes> names{{.name = "first"}, {.name = "second", .weight_bytes = 5}};
  const Result<Timeline> made = timeline_of(launches_of(modules), names);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_DOUBLE_EQ(made->layer_us, 10);
  EXPECT_NEAR(made->mean_layer_us, (10 + 14 + 10) / 3.0, 1e-9);
  ASSERT_EQ(made->steps.size(), 2u);
  EXPECT_EQ(made->steps[0].one_layer.ctas[0].of(Moment::start), 2000);
  EXPECT_DOUBLE_EQ(made->steps[0].took_us, 6);
  EXPECT_DOUBLE_EQ(made->steps[1].took_us, 4);
  ASSERT_FALSE(made->steps[1].since.empty());
  EXPECT_EQ(made->steps[1].since[0].first, Moment::start);
  EXPECT_DOUBLE_EQ(made->steps[1].since[0].second.least, -1);
  EXPECT_DOUBLE_EQ(made->steps[1].since[0].second.most, -0.999);
  EXPECT_FALSE(timeline_of(launches_of(modules), std::vector<StepTimes>(3)).ok()) << "10 launches of 3 steps";
}

TEST(chain_timeline, kernels_note_times_if_their_unit_asks) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler.ok()) << compiler.error().message;
  const auto names_timeline = [&](const std::string& unit) {
    const Result<Cubin> cubin = (*compiler)->compile(unit);
    EXPECT_TRUE(cubin.ok()) << (cubin.ok() ? "" : cubin.error().message);
    return cubin.ok() && cubin->image.find(kTimelineCountsName) != std::string::npos;
  };
  std::vector<std::string> units{norm_units(DType::bf16, NormStore::tensor)[0],
                                 quantize_units(DType::bf16, Granularity::row, Gate::none, {})[0]};
  for (const Schedule schedule : {Schedule::plain, Schedule::plain_wgmma, Schedule::ping_pong}) {
    const Result<Plan> plan = gemm::plan({.m = 8, .n = 512, .k = 1024}, DeviceInfo{}, {.schedule = schedule});
    ASSERT_TRUE(plan.ok());
    units.push_back(unit_text(plan->config));
  }
  for (const std::string& unit : units) {
    EXPECT_TRUE(names_timeline(kTimelinePrologue + unit)) << unit;
    EXPECT_FALSE(names_timeline(unit)) << unit;
  }
}

TEST(chain_timeline, a_cache_with_a_prologue_compiles_other_units) {
  std::string compiled;
  const CompilerSeam seam{.version = [] { return std::string("fake 1.0"); },
                          .compile = [&](const std::string& unit) -> Result<Cubin> {
                            compiled = unit;
                            return Cubin{.image = "image", .report = {.compiler = "fake 1.0"}};
                          },
                          .prologue = kTimelinePrologue};
  const KernelCache cache({}, seam);
  ASSERT_TRUE(cache.get("// a unit\n").ok());
  EXPECT_EQ(compiled, "#define SLUICE_TIMELINE 1\n// a unit\n");
}

}  // namespace
}  // namespace sluice::bench
