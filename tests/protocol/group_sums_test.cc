// SPDX-License-Identifier: Apache-2.0
// Sums over groups (gradients of weights) in the twin: real numbers against the reference, bit by bit, with
// NaN in rows of no group and of other groups. To see it fail: leave out clear_rest, or clear A alone.
#include <cstring>
#include <random>

#include <sluice/twin/record.h>

#include "operands.h"
#include "scenarios.h"

namespace sluice::twin {
namespace {

constexpr KernelConfig kPingPong{.schedule = Schedule::ping_pong, .tile = {.m = 64, .n = 64}, .stages = 3};
constexpr KernelConfig kCooperative{
    .schedule = Schedule::cooperative, .tile = {.m = 128, .n = 128}, .stages = 3};

struct Sums {
  i64 m = 136, n = 72, k = 300;
  int pitch = 1;
  std::vector<int> numbers;
  DType out = DType::fp32;
  Epilogue epilogue{};
};

Operands operands_of(const Sums& g) {
  Problem p{.m = g.m,
            .n = g.n,
            .k = g.k,
            .batch = static_cast<i64>(g.numbers.size()),
            .a = {.major = Major::mn, .ld = round_up(g.m, i64{8})},
            .b = {.major = Major::mn, .ld = round_up(g.n, i64{8})},
            .d = {.type = g.out},
            .epilogue = g.epilogue};
  p.groups = {GroupKind::along_k, g.pitch};
  Operands o = make_operands(p);
  o.groups = g.numbers;
  poison_rows_of_no_group(o);
  return o;
}

void expect_equals_reference(const Sums& g, const KernelConfig& config, int clusters = 2) {
  Operands o = operands_of(g);
  const auto report = run_on_host(plan_of(o.problem, config, clusters), o.buffers(o.d), 1.0f, 1.0f, 42);
  ASSERT_TRUE(report.ok()) << report.error().message;
  reference_gemm(o.problem, o.buffers(o.expected), 1.0f, 1.0f);
  EXPECT_EQ(std::memcmp(o.d.data(), o.expected.data(), o.d.size()), 0) << "D differs from the reference";
}

TEST(group_sums, are_exact_and_zero_for_groups_without_rows) {
  for (const KernelConfig& config : {kPingPong, kCooperative}) {
    expect_equals_reference({.numbers = {0, 64, 64, 65, 193, 300}}, config);
    expect_equals_reference({.k = 640, .pitch = 128, .numbers = {5, 129, 256, 400, 513}}, config);
    expect_equals_reference({.k = 7, .numbers = {0, 0, 0}}, config);
    expect_equals_reference({.k = 200, .numbers = {-4, 90, 30, 1 << 30, 5, 120}}, config);
    expect_equals_reference({.numbers = {10, 200}, .out = DType::bf16}, config, 5);
  }
}

TEST(group_sums, are_added_to_main_gradients_and_to_a_residual) {
  expect_equals_reference({.numbers = {3, 3, 100, 290}, .epilogue = {.update = Update::add}}, kPingPong);
  expect_equals_reference(
      {.numbers = {3, 3, 100, 290}, .epilogue = {.residual = true, .c_type = DType::fp32}}, kCooperative);
}

TEST(group_sums, share_operands_in_clusters) {
  KernelConfig config = kPingPong;
  config.cluster = {2, 2, 1};
  expect_equals_reference({.m = 200, .n = 200, .numbers = {3, 70, 70, 300}}, config);
}

TEST(group_sums, of_random_sizes_are_exact) {
  std::mt19937 random(5);
  const auto number = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Sums g{.m = number(1, 40) * 4, .n = number(1, 40) * 4, .pitch = number(0, 1) ? 1 : number(1, 90)};
    int end = 0;
    for (int groups = number(1, 9); groups > 0; --groups) {
      end = round_up(end, g.pitch) + (number(0, 2) == 0 ? 0 : number(1, 150));
      g.numbers.push_back(end);
    }
    g.k = number(0, 3) == 0 ? std::max(1, end - 20) : end + number(1, 30);
    expect_equals_reference(g, number(0, 1) ? kPingPong : kCooperative, number(1, 5));
  }
}

/// A NaN of one group must not reach the sums of its neighbours.
TEST(group_sums, keep_the_nan_of_a_group_to_themselves) {
  Operands o = operands_of({.m = 64, .n = 64, .k = 192, .numbers = {10, 30, 192}});
  const Problem& p = o.problem;
  for (i64 row = 10; row < 30; ++row)
    for (i64 i = 0; i < p.m; ++i)
      for (auto& [data, ld] : {std::pair{&o.a, p.a.ld}, {&o.b, p.b.ld}})
        store_element(p.a.type, data->data(), row * ld + i, std::numeric_limits<double>::quiet_NaN());
  const auto report = run_on_host(plan_of(p, kPingPong, 2), o.buffers(o.d), 1.0f, 1.0f, 42);
  ASSERT_TRUE(report.ok()) << report.error().message;
  reference_gemm(p, o.buffers(o.expected), 1.0f, 1.0f);
  const i64 bytes = p.d.batch_stride * 4;
  for (const i64 group : {0, 2})
    EXPECT_EQ(std::memcmp(o.d.data() + group * bytes, o.expected.data() + group * bytes,
                          static_cast<size_t>(bytes)),
              0)
        << "group " << group;
}

Scenario scenario_of(Shape shape, const std::vector<int>& ends) {
  Scenario s = make(shape);
  s.config.groups = {GroupKind::along_k, 128};
  s.config.a_major = s.config.b_major = Major::mn;
  EXPECT_EQ(validate(s.config), nullptr) << validate(s.config);
  s.k = ends.back();
  s.batch = static_cast<int>(ends.size());
  s.groups = read_groups(s.config, {GroupKind::along_k, 1}, s.k, ends);
  return s;
}

/// Bug: products read the zeroed rows before the fence.
struct ClearsUnpublished : Machine {
  using Machine::Machine;
  void clear_rest(int stage, const Tile& tile) {
    record({.kind = StepKind::clear_rest, .stage = stage, .tile = tile});
  }
};
/// Bug: a warp does not wait for the others, which zero rows too.
struct ClearsAlone : Machine {
  using Machine::Machine;
  void clear_rest(int stage, const Tile& tile) {
    record({.kind = StepKind::clear_rest, .stage = stage, .tile = tile});
    record({.kind = StepKind::publish});
  }
};

TEST(group_sums, keep_the_protocol_and_planted_bugs_are_found) {
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative}) {
    const Shape shape{.schedule = schedule, .stages = 2, .rows = 1};
    const Scenario scenario = scenario_of(shape, {100, 100, 130});
    const Exploration found = explore_all(record_gemm(scenario), {.max_states = 3'000'000});
    expect_clean(found, shape);
    EXPECT_TRUE(found.complete) << found.states << " states";
    expect_caught(explore_all(record<ClearsUnpublished>(scenario)), FailureKind::store_unpublished, shape);
  }
  const Shape warps{.rows = 1, .warps_per_group = kMathWarps};
  expect_caught(explore_all(record<ClearsAlone>(scenario_of(warps, {100})), {.max_states = 100'000}),
                FailureKind::store_unpublished, warps);
}

}  // namespace
}  // namespace sluice::twin
