// SPDX-License-Identifier: Apache-2.0
// Operands that warps load without TMA: every interleaving of small scenarios, planted bugs, and numbers.
// Each test's planted bugs prove that it can fail.
#include <cstring>

#include "catching.h"
#include "operands.h"

namespace sluice::twin {
namespace {

struct Loads {
  Load a = Load::strided, b = Load::tma;
};
constexpr Loads kLoads[] = {
    {Load::strided, Load::tma}, {Load::tma, Load::strided}, {Load::strided, Load::strided}};

Scenario strided(const Shape& shape, const Loads& loads = {}) {
  Scenario scenario = make(shape);
  scenario.config.load_a = loads.a;
  scenario.config.load_b = loads.b;
  EXPECT_EQ(validate(scenario.config), nullptr);
  return scenario;
}

TEST(strided, every_interleaving_of_small_scenarios) {
  for (const Loads& loads : kLoads)
    for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
      for (const int k_tiles : {0, 1, 2, 3, 5}) {
        const Shape shape{.schedule = schedule, .k_tiles = k_tiles, .rows = 2};
        const Exploration found = explore_all(record_gemm(strided(shape, loads)), {.max_states = 3'000'000});
        expect_clean(found, shape);
        EXPECT_TRUE(found.complete);
      }
}

TEST(strided, along_k_in_slices_and_before_the_wait) {
  for (const Loads& loads : kLoads) {
    const Shape shapes[] = {{.k_tiles = 3, .rows = 1, .cluster = {1, 1, 2}},
                            {.k_tiles = 4, .rows = 3, .slices = 3},
                            {.k_tiles = 3, .rows = 2, .overlap = {.wait = Wait::first}},
                            {.k_tiles = 3, .rows = 2, .overlap = {.wait = Wait::weights_first}}};
    for (const Shape& shape : shapes)
      expect_clean(explore_random(record_gemm(strided(shape, loads)), {.schedules = 200}), shape);
  }
}

// ---- planted bugs ----
struct DoesNotWaitEmpty : Machine {
  using Machine::Machine;
  void wait_empty(int stage, u32 parity) {
    if (!is_strided_warp()) Machine::wait_empty(stage, parity);
  }
};
/// Bug: without the fence, WGMMA may read the old contents of the stage.
struct NoFence : Machine {
  using Machine::Machine;
  void publish_strided(int stage) { arrive_strided(stage, kStridedWarps); }
};
struct ArrivesBeforeWriting : Machine {
  using Machine::Machine;
  void write_strided(int, int k_tile) { written = k_tile; }
  void publish_strided(int stage) {
    arrive_strided(stage, kStridedWarps);
    Machine::write_strided(stage, written);
    record({.kind = StepKind::publish, .stage = stage});
  }
  int written = 0;
};
struct OneWarpTooFew : Machine {
  using Machine::Machine;
  void publish_strided(int stage) {
    record({.kind = StepKind::publish, .stage = stage});
    arrive_strided(stage, kStridedWarps - 1);
  }
};
struct NextKTile : Machine {
  using Machine::Machine;
  void write_strided(int stage, int k_tile) { Machine::write_strided(stage, k_tile + 1); }
};
struct ReadsBeforeTheWait : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    if (!is_strided_warp()) Machine::wait_prerequisites();
  }
};
/// Bug: also expects the bytes of the operand that is loaded without TMA.
struct ExpectsStridedBytes : Machine {
  using Machine::Machine;
  void expect_stage(int stage) {
    record({.kind = StepKind::expect, .stage = stage, .count = stage_bytes(config())});
  }
};

template <class Mutant>
void expect_strided_catches(FailureKind kind, const Shape& shape) {
  expect_clean(explore_random(record_gemm(strided(shape)), {.schedules = 20}), shape);
  expect_caught(explore_all(record<Mutant>(strided(shape)), {.max_states = 3'000'000}), kind, shape);
}

TEST(strided_mutants, no_wait_for_an_empty_stage) {
  expect_strided_catches<DoesNotWaitEmpty>(FailureKind::lost_signal, {.k_tiles = 4});
}
TEST(strided_mutants, no_fence) {
  expect_strided_catches<NoFence>(FailureKind::stage_unready, {.k_tiles = 2});
}
TEST(strided_mutants, arrives_before_writing) {
  expect_strided_catches<ArrivesBeforeWriting>(FailureKind::wrong_bytes, {.k_tiles = 2});
}
TEST(strided_mutants, one_warp_too_few) {
  expect_strided_catches<OneWarpTooFew>(FailureKind::deadlock, {.k_tiles = 2});
}
TEST(strided_mutants, the_next_k_tile) {
  expect_strided_catches<NextKTile>(FailureKind::wrong_bytes, {.k_tiles = 3});
}
TEST(strided_mutants, reads_before_the_wait) {
  expect_strided_catches<ReadsBeforeTheWait>(FailureKind::before_the_wait,
                                             {.k_tiles = 2, .overlap = {.wait = Wait::weights_first}});
}
TEST(strided_mutants, expects_bytes_that_do_not_come) {
  expect_strided_catches<ExpectsStridedBytes>(FailureKind::deadlock, {.k_tiles = 2});
}

TEST(strided, numbers_with_any_strides_and_tails) {
  for (const Loads& loads : kLoads)
    for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
      for (const Major a : {Major::k, Major::mn})
        for (const Major b : {Major::k, Major::mn}) {
          Problem problem{.m = 135, .n = 77, .k = 131, .batch = 2, .d = {.type = DType::fp32}};
          problem.a.major = a, problem.b.major = b;
          const i64 inner_a = a == Major::k ? 131 : 135, inner_b = b == Major::k ? 131 : 77;
          problem.a.ld = loads.a == Load::strided ? inner_a + 2 : round_up(inner_a, i64{8});
          problem.b.ld = loads.b == Load::strided ? inner_b + 4 : round_up(inner_b, i64{8});
          KernelConfig config{.schedule = schedule,
                              .tile = {.m = schedule == Schedule::ping_pong ? 64 : 128, .n = 64},
                              .stages = 3,
                              .store = StorePath::direct};
          config.load_a = loads.a, config.load_b = loads.b;
          Operands o = make_operands(problem);
          const auto report = run_on_host(plan_of(problem, config, 2), o.buffers(o.d), 1.0f, 0.0f, 42);
          ASSERT_TRUE(report.ok()) << report.error().message;
          reference_gemm(o.problem, o.buffers(o.expected), 1.0f, 0.0f);
          EXPECT_EQ(std::memcmp(o.d.data(), o.expected.data(), o.d.size()), 0);
        }
}

}  // namespace
}  // namespace sluice::twin
