// SPDX-License-Identifier: Apache-2.0
// Products of groups in the twin: the kernel's roles with real numbers against the reference, bit by bit, and
// every interleaving of small ones. D and rows of A that belong to no group are NaN, so a row that is read or
// written by mistake shows.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <sluice/spec/loaded_rows.h>

#include <sluice/twin/chain.h>
#include <sluice/twin/launch_lists.h>
#include <sluice/twin/record.h>

#include "operands.h"
#include "scenarios.h"

namespace sluice::twin {
namespace {

struct Grouped {
  GroupKind kind = GroupKind::ends;
  int pitch = 1;
  i64 m = 300, n = 72, k = 130;
  std::vector<int> numbers;
  DType in = DType::bf16, out = DType::fp32;
  Epilogue epilogue{};
};

Problem problem_of(const Grouped& g) {
  Problem p{.m = g.m,
            .n = g.n,
            .k = g.k,
            .batch = static_cast<i64>(g.numbers.size()),
            .a = {.type = g.in},
            .b = {.type = g.in},
            .d = {.type = g.out},
            .epilogue = g.epilogue};
  p.groups = {g.kind, g.pitch};
  return p;
}

TwinReport expect_equals_reference(const Grouped& g, const KernelConfig& config, int clusters = 2) {
  Operands o = make_operands(problem_of(g));
  o.groups = g.numbers;
  poison_rows_of_no_group(o);
  const Plan plan = plan_of(o.problem, config, clusters);
  const auto report = run_on_host(plan, o.buffers(o.d), 1.0f, 1.0f, 42);
  EXPECT_TRUE(report.ok()) << report.error().message;
  if (!report) return {};
  reference_gemm(o.problem, o.buffers(o.expected), 1.0f, 1.0f);
  EXPECT_EQ(std::memcmp(o.d.data(), o.expected.data(), o.d.size()), 0) << "D differs from the reference";
  return *report;
}

constexpr KernelConfig kPingPong{.schedule = Schedule::ping_pong, .tile = {.m = 64, .n = 32}, .stages = 3};
constexpr KernelConfig kCooperative{
    .schedule = Schedule::cooperative, .tile = {.m = 128, .n = 48}, .stages = 3};

TEST(groups, of_all_layouts_are_exact) {
  for (const KernelConfig& config : {kPingPong, kCooperative}) {
    expect_equals_reference({.numbers = {0, 64, 64, 65, 193, 300}}, config);
    expect_equals_reference({.pitch = 128, .m = 640, .numbers = {5, 129, 256, 400, 513}}, config);
    expect_equals_reference({.kind = GroupKind::counts, .pitch = 100, .m = 400, .numbers = {0, 100, 1, 65}},
                            config, 3);
    expect_equals_reference({.m = 1, .numbers = {1}}, config);
    expect_equals_reference({.m = 7, .numbers = {0, 0, 0}}, config);  // nothing to do
  }
}

TEST(groups, of_any_numbers_stay_inside) {
  const int most = std::numeric_limits<int>::max(), least = std::numeric_limits<int>::min();
  for (const GroupKind kind : {GroupKind::ends, GroupKind::counts})
    for (const int pitch : {1, 70})
      expect_equals_reference(
          {.kind = kind, .pitch = pitch, .m = 200, .numbers = {least, 90, 30, most, -5, 120}}, kPingPong);
}

TEST(groups, have_scales_biases_and_residuals_of_their_own) {
  const std::vector<int> numbers{3, 70, 70, 200, 219};
  const Epilogue vectors{.scale_a = ScaleMode::vector,
                         .scale_b = ScaleMode::vector,
                         .bias = Bias::column,
                         .bias_type = DType::bf16,
                         .activation = Activation::relu};
  const Epilogue blocks{.scale_a = ScaleMode::block, .scale_b = ScaleMode::block};
  const Epilogue gated{.activation = Activation::relu, .gated = true};
  const Epilogue residual{.residual = true, .c_type = DType::fp32};
  KernelConfig config = kCooperative;
  config.tile.n = 64;
  for (const StorePath store : {StorePath::tma, StorePath::direct}) {
    config.store = store;
    for (const Epilogue& e : {vectors, gated, residual})
      expect_equals_reference({.m = 230, .n = 160, .numbers = numbers, .epilogue = e}, config);
    config.promotes = true;
    expect_equals_reference(
        {.m = 230, .n = 200, .k = 300, .numbers = numbers, .in = DType::e4m3, .epilogue = blocks}, config);
    config.promotes = false;
  }
}

TEST(groups, share_tokens_in_clusters_along_n_and_sums_in_clusters_along_k) {
  const Grouped g{.m = 280, .n = 300, .k = 260, .numbers = {1, 9, 74, 200, 280}};
  KernelConfig config = kPingPong;
  config.tile.n = 64;
  config.cluster = {1, 2, 1};
  expect_equals_reference(g, config, 3);
  config = kCooperative;
  config.tile.n = 64;
  config.cluster = {1, 1, 2};
  expect_equals_reference(g, config, 3);
}

/// Row 0 of D, of numbers whose sums round.
std::vector<u8> first_row(const std::vector<int>& ends, const KernelConfig& config) {
  const Grouped g{.m = ends.back(), .numbers = ends};
  Operands o = make_operands(problem_of(g));
  o.groups = g.numbers;
  const Problem& p = o.problem;
  const auto fill = [](std::vector<u8>& bytes, DType type, double step) {
    for (i64 i = 0; i < static_cast<i64>(bytes.size()) / bytes_of(type); ++i)
      store_element(type, bytes.data(), i, std::sin(step * static_cast<double>(i)));
  };
  fill(o.a, p.a.type, 1.0);
  fill(o.b, p.b.type, 0.7);
  EXPECT_TRUE(run_on_host(plan_of(p, config, 2), o.buffers(o.d), 1.0f, 1.0f, 42).ok());
  o.d.resize(static_cast<size_t>(p.n * bytes_of(p.d.type)));
  return o.d;
}

TEST(groups, bits_of_a_row_depend_on_no_other_row_and_on_no_tile) {
  KernelConfig parts = kCooperative;
  parts.tile.n = 64, parts.cluster = {1, 1, 2};
  const std::vector<u8> alone = first_row({1}, kPingPong);
  for (const KernelConfig& config : {kPingPong, kCooperative})
    for (const std::vector<int>& ends : {std::vector{1}, {64}, {1, 70, 300}, {130, 130, 131}})
      EXPECT_EQ(first_row(ends, config), alone);
  EXPECT_NE(first_row({1}, parts), alone) << "clusters along k add parts, so the planner leaves them out";
}

TEST(groups, load_no_more_than_small_boxes) {
  const Grouped few{.m = 128, .n = 32, .k = 64, .numbers = {1, 2, 3, 4, 5, 6, 7, 8}};
  const TwinReport report = expect_equals_reference(few, kPingPong, 4);
  EXPECT_EQ(report.tiles, 8);
  Tile tile{.m_offset = 100, .row_end = 101};
  KernelConfig config = config_of(problem_of(few), kPingPong);
  EXPECT_EQ(group_tile_rows(config, tile), 8);
  tile.row_end = 117;
  EXPECT_EQ(group_tile_rows(config, tile), 24);
  tile.row_end = 164;
  EXPECT_EQ(group_tile_rows(config, tile), 64);
}

/// A chunk that TMA reads is followed by one that is copied, which must count among the chunks in flight.
TEST(groups, may_end_within_a_tile_of_two_waves) {
  KernelConfig config = kCooperative;
  config.tile = {.m = 256, .n = 96, .k = 64};
  for (const int rows : {40, 64, 70, 128, 130, 250})
    expect_equals_reference({.m = 600, .n = 96, .numbers = {rows, rows + 1, 2 * rows + 1}}, config);
}

TEST(groups, of_random_sizes_are_exact) {
  std::mt19937 random(3);
  const auto number = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE("case " + std::to_string(i));
    Grouped g{.kind = number(0, 2) == 0 ? GroupKind::counts : GroupKind::ends,
              .pitch = number(0, 1) ? 1 : number(1, 90),
              .n = number(1, 120),
              .k = number(0, 200)};
    int end = 0;
    for (int groups = number(1, 12); groups > 0; --groups) {
      const int rows = number(0, 2) == 0 ? 0 : number(1, 150);
      end = (end + g.pitch - 1) / g.pitch * g.pitch + rows;
      g.numbers.push_back(g.kind == GroupKind::counts ? rows : end);
    }
    g.m = number(0, 3) == 0 ? std::max(1, end - 20) : end + number(1, 30);
    g.n = g.n / 4 * 4 + 4;  // rows of D are whole units of 16 bytes
    expect_equals_reference(g, number(0, 1) ? kPingPong : kCooperative, number(1, 5));
  }
}

/// A scenario whose groups have these rows.
Scenario scenario_of(Shape shape, const std::vector<int>& rows) {
  Scenario s = make(shape);
  s.config.groups = {GroupKind::ends, 128};
  EXPECT_EQ(validate(s.config), nullptr) << validate(s.config);
  std::vector<int> ends;
  int end = 0;
  for (const int count : rows) ends.push_back(end += count);
  s.m = end;
  s.batch = static_cast<int>(rows.size());
  s.groups = read_groups(s.config, {GroupKind::ends, 1}, end, ends);
  return s;
}

TEST(groups, keep_the_protocol_in_every_interleaving) {
  const auto explored = [](const Shape& shape, const std::vector<int>& rows) {
    const Exploration found = explore_all(record_gemm(scenario_of(shape, rows)), {.max_states = 3'000'000});
    expect_clean(found, shape);
    EXPECT_TRUE(found.complete) << text_of(shape) << ": more than " << found.states << " states";
  };
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (const int chunks : {1, 3})
      explored({.schedule = schedule, .stages = 2, .k_tiles = 2, .chunks = chunks}, {3, 0, 70});
  explored({.k_tiles = 1, .cluster = {1, 2}}, {3});
  explored({.k_tiles = 1, .overlap = {.wait = Wait::first, .trigger = Trigger::at_start}}, {3, 20});
  explored({.k_tiles = 1, .warps_per_group = kMathWarps}, {3});
}

// ---- in chains ----
/// route, gather, and two products that read the table: each launch begins as early as it may. The table is
/// complete for a product two launches behind, because each launch in between waits.
template <class AnyMachine = Machine>
std::vector<ChainLaunch> layer_of_experts(Trigger trigger) {
  const Overlap o{.wait = Wait::first, .trigger = trigger};
  const auto product = [&](const LaunchArrays& arrays) {
    return launch_of(
        gemm_lists(record_unchecked<AnyMachine>(scenario_of({.k_tiles = 1, .overlap = o}, {3, 20}))), arrays);
  };
  return {launch_of(route_lists({Wait::none, trigger}),
                    {.name = "route", .edge = Edge::stream, .output = "rows", .sum = "table"}),
          launch_of(quantize_lists(o), {.name = "gather", .token_scales = "rows", .output = "y"}),
          product({.name = "gate_up", .tokens = "y", .table = "table", .output = "z"}),
          product({.name = "down", .tokens = "z", .table = "table", .output = "y"})};
}

TEST(groups, may_be_steps_of_chains) {
  for (const Trigger trigger : {Trigger::never, Trigger::at_start, Trigger::after_loads}) {
    const Exploration found = explore_chain(layer_of_experts(trigger));
    EXPECT_FALSE(found.failure) << describe(*found.failure);
    EXPECT_TRUE(found.complete) << name_of(trigger);
  }
}

// ---- planted bugs ----
/// Bug: TMA stores a chunk whose last rows are another group's.
struct StoresForeignRows : Machine {
  using Machine::Machine;
  void issue_store(int buffer, const Tile& tile, int wave, int column) {
    if (is_elected())
      record({.kind = StepKind::issue_store, .stage = buffer, .tile = tile, .wave = wave, .column = column});
  }
};
/// Bug: rows are copied before all warps have written them.
struct CopiesUnpublished : Machine {
  using Machine::Machine;
  void publish_chunk() { record({.kind = StepKind::publish}); }
};
/// Bug: the last rows of a group are never stored.
struct ForgetsTheRest : Machine {
  using Machine::Machine;
  void issue_store(int buffer, const Tile& tile, int wave, int column) {
    if (live_rows(tile) >= (wave + 1) * kWaveRows) Machine::issue_store(buffer, tile, wave, column);
  }
};
/// Bug: the load thread expects a whole tile where small boxes come.
struct ExpectsWholeTiles : Machine {
  using Machine::Machine;
  void begin_loads(const Tile& tile) {
    Machine::begin_loads(tile);
    load_tile_.row_end = tile.m_offset + config().tile.m;
  }
  void load_a(int stage, int k_tile) {
    const Tile whole = load_tile_;
    load_tile_.row_end = whole.m_offset + 3;
    Machine::load_a(stage, k_tile);
    load_tile_ = whole;
  }
};
/// Bug: the table is read before the launch that writes it has ended.
struct ReadsTheListEarly : Machine {
  using Machine::Machine;
  void wait_prerequisites() {
    Machine::read_list();
    Machine::wait_prerequisites();
  }
};
/// Bug: the copy commits no bulk group, so the wait for the other buffer passes while TMA reads it.
struct CountsNoCopy : Machine {
  using Machine::Machine;
  void wait_store_buffer() {
    if (is_elected()) record({.kind = StepKind::wait_store, .count = kStoreBuffers});
    group_sync();
  }
};

/// Bug: a math group without rows releases stages that are not full yet. Use it where group 1 has no rows.
struct ReleasesUnfilled : Machine {
  using Machine::Machine;
  void wait_full(int stage, u32 parity) {
    if (math_group() == 0) Machine::wait_full(stage, parity);
  }
};
/// Bug: the second math group takes its rows for the first one's, of which there are too few.
struct LeavesOutRows : Machine {
  using Machine::Machine;
  bool has_rows(const Tile& tile) const {
    return scenario_.row_end_of(tile) - tile.m_offset > math_group() * config().tile.m;
  }
};

template <class Mutant>
void expect_found(FailureKind kind, const Shape& shape, const std::vector<int>& rows) {
  const Scenario scenario = scenario_of(shape, rows);
  expect_clean(explore_all(record_gemm(scenario)), shape);
  expect_caught(explore_all(record<Mutant>(scenario), {.max_states = 3'000'000}), kind, shape);
}

TEST(groups, planted_bugs_are_found) {
  const Shape small{.k_tiles = 1}, waits{.k_tiles = 1, .overlap = {.wait = Wait::first}};
  expect_found<StoresForeignRows>(FailureKind::tile_twice, small, {3, 64});
  expect_found<CopiesUnpublished>(FailureKind::store_unpublished,
                                  {.k_tiles = 1, .warps_per_group = kMathWarps}, {3});
  expect_found<ForgetsTheRest>(FailureKind::tile_missing, small, {64, 3});
  expect_found<ExpectsWholeTiles>(FailureKind::deadlock, small, {3});
  expect_found<ReadsTheListEarly>(FailureKind::before_the_wait, waits, {3});
  EXPECT_EQ(explore_chain(layer_of_experts<ReadsTheListEarly>(Trigger::at_start)).failure->kind,
            FailureKind::read_early);
  expect_found<CountsNoCopy>(FailureKind::store_buffer_overwritten, {.k_tiles = 1, .chunks = 3}, {64, 3});
  const Shape shared{.schedule = Schedule::cooperative, .stages = 2, .k_tiles = 4};
  expect_found<ReleasesUnfilled>(FailureKind::stage_unready, shared, {3});
  expect_found<LeavesOutRows>(FailureKind::tile_missing, shared, {70});
}

}  // namespace
}  // namespace sluice::twin
