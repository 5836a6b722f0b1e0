// SPDX-License-Identifier: Apache-2.0
// Products that are added to D: unsplit tiles, and slices of shared tiles in any order. Tests every
// interleaving of small runs, real numbers against the reference, and planted bugs: adding twice, never or
// only by some peers, and storing instead of adding.
#include <cstdio>
#include <cstring>

#include "catching.h"
#include "operands.h"

namespace sluice::twin {
namespace {

// ---- planted bugs ----
struct AddsTwice : Machine {
  using Machine::Machine;
  void issue_store(int buffer, const Tile& tile, int wave, int column) {
    Machine::issue_store(buffer, tile, wave, column);
    Machine::issue_store(buffer, tile, wave, column);
  }
  void store_direct(const Tile& tile) {
    Machine::store_direct(tile);
    Machine::store_direct(tile);
  }
};
struct AddsNever : Machine {
  using Machine::Machine;
  void issue_store(int, const Tile&, int, int) {}
};
/// Bug: adds where it must store and stores where it must add.
struct StoresWhereItShouldAdd : Machine {
  using Machine::Machine;
  void issue_store(int buffer, const Tile& tile, int wave, int column) {
    Machine::issue_store(buffer, tile, wave, column);
    if (is_elected()) steps_.back().adds = !steps_.back().adds;
  }
  void store_direct(const Tile& tile) {
    Machine::store_direct(tile);
    steps_.back().adds = !steps_.back().adds;
  }
};
/// Bug: only the first peer of a tile adds its partial sums, as if it had those of all peers.
struct OnlyTheFirstPeerAdds : Machine {
  using Machine::Machine;
  void issue_store(int buffer, const Tile& tile, int wave, int column) {
    if (tile.sharing.rank == 0) Machine::issue_store(buffer, tile, wave, column);
  }
};
/// Bug: one peer adds twice and another never. The number of additions is right, but one peer's sums are
/// lost.
struct OnePeerAddsForAnother : Machine {
  using Machine::Machine;
  void issue_store(int buffer, const Tile& tile, int wave, int column) {
    if (tile.sharing.rank == 0) Machine::issue_store(buffer, tile, wave, column);
    if (tile.sharing.rank != 1) Machine::issue_store(buffer, tile, wave, column);
  }
};
/// Bug: adds its slice to D before the peers meet in the workspace, so the last peer adds it again.
struct AddsItsPartBeforeMeeting : Machine {
  using Machine::Machine;
  void write_partial(const Tile& tile) {
    Machine::store_direct(tile);
    Machine::write_partial(tile);
  }
};

constexpr Shape kWhole{.k_tiles = 2, .rows = 2, .update = Update::add};
constexpr Shape kParts{.schedule = Schedule::cooperative,
                       .k_tiles = 3,
                       .rows = 1,
                       .slices = 3,
                       .update = Update::add,
                       .combine = Combine::add};
constexpr Shape direct(Shape shape) {
  shape.store = StorePath::direct;
  return shape;
}

TEST(add_mutants, a_product_added_twice) {
  for (const Shape& shape : {kWhole, direct(kWhole), kParts, direct(kParts)})
    expect_both_catch<AddsTwice>(FailureKind::tile_twice, shape);
}
TEST(add_mutants, a_product_added_never) {
  for (const Shape& shape : {kWhole, kParts}) expect_both_catch<AddsNever>(FailureKind::tile_missing, shape);
}
TEST(add_mutants, a_plain_store_where_an_addition_belongs) {
  for (const Shape& shape : {kWhole, direct(kWhole), kParts, direct(kParts)})
    expect_both_catch<StoresWhereItShouldAdd>(FailureKind::wrong_update, shape);
}
TEST(add_mutants, an_addition_where_a_plain_store_belongs) {
  expect_both_catch<StoresWhereItShouldAdd>(FailureKind::wrong_update, {.k_tiles = 2, .rows = 2});
}
TEST(add_mutants, a_part_that_one_peer_alone_adds) {
  expect_both_catch<OnlyTheFirstPeerAdds>(FailureKind::tile_missing, kParts);
}
TEST(add_mutants, a_part_added_in_place_of_another) {
  expect_both_catch<OnePeerAddsForAnother>(FailureKind::tile_twice, kParts);
}
TEST(add_mutants, a_part_added_by_peers_that_meet) {
  Shape meeting = direct(kParts);
  meeting.combine = Combine::last_arriver;
  expect_both_catch<AddsItsPartBeforeMeeting>(FailureKind::accumulator_wrong, meeting);
}

// ---- every interleaving ----
TEST(add, parts_of_shared_tiles_in_every_interleaving) {
  i64 states = 0;
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (const StorePath store : {StorePath::tma, StorePath::direct})
      for (const int slices : {2, 3, 5})
        for (const int k_tiles : {5, 6}) {
          const Shape shape{.schedule = schedule,
                            .k_tiles = k_tiles,
                            .rows = 2,
                            .chunks = 1 + slices % 2,
                            .store = store,
                            .slices = slices,
                            .update = Update::add,
                            .combine = Combine::add};
          const Exploration found = explore_all(record_gemm(make(shape)), {.max_states = 3'000'000});
          expect_clean(found, shape);
          EXPECT_TRUE(found.complete) << text_of(shape);
          states += found.states;
        }
  std::printf("             %lld distinct states, each explored\n", states);
}

// ---- real numbers ----
void expect_equals_reference(const Problem& problem, KernelConfig config, int slices) {
  SCOPED_TRACE(testing::Message() << name_of(config.schedule) << " " << name_of(config.store) << " "
                                  << name_of(config.combine) << " slices " << slices << " n " << problem.n);
  if (slices == 1) config.combine = Combine::none;
  Operands o = make_operands(problem);
  const Plan plan = sliced(plan_of(problem, config, 2), slices);
  const auto report = run_on_host(plan, o.buffers(o.d), 0.5f, 0.0f, 7);
  ASSERT_TRUE(report.ok()) << report.error().message;
  reference_gemm(o.problem, o.buffers(o.expected), 0.5f, 0.0f);
  EXPECT_EQ(std::memcmp(o.d.data(), o.expected.data(), o.d.size()), 0) << "D differs from the reference";
}

Problem gradient(i64 m, i64 n, i64 k, bool deterministic) {
  Problem p{.m = m, .n = n, .k = k, .d = {.type = DType::fp32}};
  p.epilogue.update = Update::add;
  p.deterministic = deterministic;
  return p;
}

TEST(add, equals_the_reference_by_both_paths_whole_and_in_parts) {
  for (const Schedule schedule : {Schedule::ping_pong, Schedule::cooperative})
    for (const StorePath store : {StorePath::tma, StorePath::direct})
      for (const Combine combine : {Combine::last_arriver, Combine::add})
        for (const i64 n : {32, 51})
          for (const int slices : {1, 3}) {
            KernelConfig config{.schedule = schedule,
                                .tile = {schedule == Schedule::ping_pong ? 64 : 128, 32, 64},
                                .stages = 3,
                                .store = store,
                                .combine = combine};
            Problem p = gradient(130, n, 200, combine != Combine::add);
            p.batch = 2;
            p.d.ld = 52, p.d.batch_stride = 52 * 131;
            expect_equals_reference(p, config, slices);
            config.cluster.k = 2;
            p.epilogue.scale_a = ScaleMode::vector;
            expect_equals_reference(p, config, slices);
          }
}

TEST(add, block_scales_are_in_the_parts) {
  Problem p = gradient(140, 100, 700, false);
  p.a.type = p.b.type = DType::e4m3;
  p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
  const KernelConfig config{.tile = {128, 64, 128}, .stages = 3, .promotes = true, .combine = Combine::add};
  expect_equals_reference(p, config, 3);
}

TEST(add, leaves_d_alone_where_there_is_nothing_to_add) {
  const KernelConfig config{.tile = {128, 64, 64}, .stages = 3};
  for (const i64 k : {0, 100}) {
    Operands o = make_operands(gradient(64, 64, k, true));
    const auto report =
        run_on_host(plan_of(o.problem, config, 1), o.buffers(o.d), k == 0 ? 1.0f : 0.0f, 0.0f, 1);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(report->stores, 0);
    EXPECT_EQ(o.d, o.expected);
  }
}

}  // namespace
}  // namespace sluice::twin
