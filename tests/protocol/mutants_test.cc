// SPDX-License-Identifier: Apache-2.0
// Every planted bug must be found, by the right rule. Each test first shows that its scenario has no fault
// without the bug. If a rule of the simulator is removed, one of the tests fails.
#include "mutants.h"

#include "catching.h"

namespace sluice::twin {
namespace {

using namespace mutants;

constexpr Schedule kCoop = Schedule::cooperative;

// ---- the ring ----
TEST(mutants, no_wait_empty) {
  // The load thread arrives at a full barrier that already has its arrival for this phase.
  expect_both_catch<NoWaitEmpty>(FailureKind::over_arrival, {.k_tiles = 4});
}
TEST(mutants, no_fresh_parity) {
  expect_both_catch<NoFreshParity>(FailureKind::deadlock, {.k_tiles = 1});
}
TEST(mutants, no_wait_full) {
  expect_both_catch<NoWaitFull>(FailureKind::stage_unready, {.k_tiles = 1});
}
TEST(mutants, wrong_full_parity) {
  expect_both_catch<WrongFullParity>(FailureKind::stage_unready, {.k_tiles = 1});
}
TEST(mutants, release_before_the_product_retired) {
  expect_both_catch<ReleaseBeforeRetired>(FailureKind::stage_overwritten, {.k_tiles = 4});
}
TEST(mutants, release_of_the_stage_being_read) {
  // Stage 0 is never released, and the tile's last stage is released twice.
  expect_both_catch<ReleaseNewest>(FailureKind::deadlock, {.stages = 3, .k_tiles = 5});
}
TEST(mutants, release_count_one_too_few) {
  expect_both_catch<ReleaseOneTooFew>(FailureKind::deadlock, {.k_tiles = 2});
}
TEST(mutants, release_count_one_too_many) {
  expect_both_catch<ReleaseOneTooMany>(FailureKind::over_arrival, {.k_tiles = 2});
}
TEST(mutants, release_twice) {
  expect_both_catch<ReleaseTwice>(FailureKind::lost_signal, {.k_tiles = 2});
}
TEST(mutants, release_only_to_the_own_cta) {
  expect_both_catch<ReleaseOwnCtaOnly>(FailureKind::deadlock, {.k_tiles = 1, .rows = 1, .cluster = {2, 1}});
}
TEST(mutants, release_twice_to_the_own_cta) {
  expect_both_catch<ReleaseOwnCtaTwice>(FailureKind::lost_signal,
                                        {.k_tiles = 1, .rows = 1, .cluster = {2, 1}});
}
TEST(mutants, too_few_bytes_expected) {
  expect_both_catch<WrongExpectedBytes<-4096>>(FailureKind::stage_unready, {.k_tiles = 2});
}
TEST(mutants, too_many_bytes_expected) {
  expect_both_catch<WrongExpectedBytes<16>>(FailureKind::deadlock, {.k_tiles = 2});
}
TEST(mutants, more_bytes_expected_than_an_mbarrier_counts) {
  expect_both_catch<ExpectsTooManyToCount>(FailureKind::tx_overflow, {.k_tiles = 2});
}
TEST(mutants, bytes_expected_of_rows_outside) {
  expect_both_catch<ExpectsRowsOutside>(FailureKind::deadlock, {.k_tiles = 1, .rows = 1, .short_rows = 50});
}
TEST(mutants, bytes_expected_twice) {
  expect_both_catch<ExpectsTwice>(FailureKind::over_arrival, {.k_tiles = 2});
}
TEST(mutants, the_producer_leaves_without_draining_the_ring) {
  const Shape shape{.k_tiles = 2, .rows = 1, .cluster = {2, 1}};
  expect_clean(explore_all(record_gemm(make(shape))), shape);
  Recording recording = record_unchecked<Machine>(make(shape));
  for (int cta = 0; cta < 2; ++cta) {
    StepList& load = recording.clusters[0].agents[cta * 3];
    while (load.back().kind == StepKind::wait_empty) load.pop_back();
  }
  finish_recording(recording);
  expect_caught(explore_all(recording), FailureKind::peer_gone, shape);
  const Exploration by_chance = explore_random(recording, {.schedules = 2000});
  expect_caught(by_chance, FailureKind::peer_gone, shape);
  EXPECT_TRUE(by_chance.failure->seed.has_value());
}

// ---- turns ----
TEST(mutants, no_wait_for_the_turn) {
  expect_both_catch<NoTurnWait>(FailureKind::stage_unready, {.k_tiles = 2});
}
TEST(mutants, the_turn_is_never_passed) {
  expect_both_catch<TurnNeverPassed>(FailureKind::deadlock, {.k_tiles = 2});
}
TEST(mutants, the_turn_is_passed_twice) {
  // The turn is two phases ahead when group 1 looks, which has the same parity as no phase at all.
  expect_both_catch<TurnPassedTwice>(FailureKind::deadlock, {.k_tiles = 2});
}
TEST(mutants, the_turn_is_passed_before_the_tile) {
  expect_both_catch<TurnPassedAtOnce>(FailureKind::stage_unready, {.k_tiles = 2});
}
TEST(mutants, both_groups_start) {
  expect_both_catch<BothGroupsStart>(FailureKind::stage_unready, {.k_tiles = 2});
}
TEST(mutants, the_ring_skips_one_k_tile_too_many) {
  const Shape shape{.stages = 3, .k_tiles = 4, .rows = 2};
  Recording recording = record_unchecked<Machine>(make(shape));
  // Gives group 1, from its first tile on, the stages that follow ring.skip(k_tiles + 1).
  for (Step& step : recording.clusters[0].agents[2]) {
    const bool in_ring = step.kind == StepKind::wait_full || step.kind == StepKind::issue_mma ||
                         step.kind == StepKind::arrive_empty;
    if (!in_ring) continue;
    if (++step.stage == shape.stages) step.stage = 0, step.parity ^= 1;
  }
  finish_recording(recording);
  expect_caught(explore_all(recording), FailureKind::wrong_bytes, shape);
}

// ---- tiles and sums ----
TEST(mutants, the_cursor_steps_too_far) {
  expect_both_catch<WrongStride<1>>(FailureKind::tile_missing, {.rows = 4, .clusters = 2});
}
TEST(mutants, the_cursor_steps_too_short) {
  expect_both_catch<WrongStride<-1>>(FailureKind::tile_twice, {.rows = 4, .clusters = 2});
}
TEST(mutants, a_load_of_another_k_tile) {
  expect_both_catch<LoadsNextKTile>(FailureKind::wrong_bytes, {.k_tiles = 2});
}
TEST(mutants, a_load_of_another_tile) {
  expect_both_catch<LoadsAnotherTile>(FailureKind::wrong_bytes, {.k_tiles = 2});
}
TEST(mutants, sums_that_never_start_from_zero) {
  expect_both_catch<NeverFresh>(FailureKind::accumulator_wrong, {.k_tiles = 2});
}
TEST(mutants, sums_read_before_the_products_are_done) {
  expect_both_catch<NoWaitMma>(FailureKind::accumulator_in_flight, {.k_tiles = 2});
}
TEST(mutants, promotion_before_the_products_are_done) {
  expect_both_catch<NoWaitMma>(FailureKind::accumulator_in_flight, {.k_tiles = 2, .promotes = true});
}
TEST(mutants, no_promotion) {
  expect_both_catch<NoPromotion>(FailureKind::accumulator_wrong, {.k_tiles = 3, .promotes = true});
}
TEST(mutants, partial_sums_added_in_the_wrong_place) {
  expect_both_catch<PromotesFirstUnitOnly>(FailureKind::accumulator_wrong,
                                           {.schedule = kCoop, .k_tiles = 1, .rows = 1, .two_units = true});
}

// ---- block scales ----
constexpr Shape kBlockScaled{.schedule = kCoop, .k_tiles = 3, .rows = 1, .block_scales = true};

TEST(mutants, scales_written_while_the_stage_is_in_use) {
  expect_both_catch<ScalesDoNotWaitEmpty>(FailureKind::lost_signal, kBlockScaled);
}
TEST(mutants, scales_published_before_they_are_written) {
  expect_both_catch<ScalesPublishedBeforeWritten>(FailureKind::wrong_bytes, kBlockScaled);
}
TEST(mutants, scales_never_published) {
  expect_both_catch<ScalesNeverPublished>(FailureKind::deadlock, kBlockScaled);
}
TEST(mutants, scales_published_by_one_warp_only) {
  expect_both_catch<ScalesPublishedByOneWarp>(FailureKind::deadlock, kBlockScaled);
}
TEST(mutants, scales_of_another_k_tile) {
  expect_both_catch<ScalesOfNextKTile>(FailureKind::wrong_bytes, kBlockScaled);
}
TEST(mutants, scales_read_once_a_tile) {
  expect_both_catch<ScalesReadOnce>(FailureKind::accumulator_wrong, kBlockScaled);
}
TEST(mutants, scales_read_before_the_stage_is_full) {
  expect_both_catch<ScalesReadTooEarly>(FailureKind::stage_unready,
                                        {.schedule = kCoop, .k_tiles = 1, .rows = 1, .block_scales = true});
}

TEST(mutants, scales_of_columns_read_after_the_stage_is_released) {
  for (const bool two_units : {false, true})
    expect_both_catch<ColumnsReadAfterRelease>(
        FailureKind::wrong_bytes,
        {.schedule = kCoop, .k_tiles = 3, .rows = 1, .each_column = true, .two_units = two_units});
  expect_both_catch<ColumnsReadAfterRelease>(FailureKind::wrong_bytes,
                                             {.k_tiles = 3, .rows = 2, .each_column = true});
}

// ---- scale vectors ----
TEST(mutants, no_wait_for_the_scale_vectors) {
  expect_both_catch<NoWaitVectors>(FailureKind::vectors_unready, {.k_tiles = 1, .scale_vectors = true});
}
constexpr Shape kWarpsWithVectors{
    .schedule = kCoop, .k_tiles = 1, .rows = 1, .scale_vectors = true, .warps_per_group = kMathWarps};

TEST(mutants, no_group_barrier_between_the_scale_vectors_and_the_first_chunk) {
  expect_all_catches<NoSyncForBuffer>(FailureKind::vectors_unready, kWarpsWithVectors);
}
TEST(mutants, no_group_barrier_between_the_scale_vectors_and_a_direct_store) {
  Shape shape = kWarpsWithVectors;
  shape.store = StorePath::direct;
  expect_all_catches<DirectStoreWithoutSyncBefore>(FailureKind::vectors_unready, shape);
}
TEST(mutants, scale_vectors_of_another_cta_in_a_cluster_along_k) {
  expect_both_catch<StagesVectorsOfWholeTile>(
      FailureKind::vectors_unready, {.k_tiles = 2, .rows = 1, .cluster = {1, 1, 2}, .scale_vectors = true});
}
TEST(mutants, scale_vectors_staged_once) {
  expect_both_catch<StagesVectorsOnce>(FailureKind::vectors_unready,
                                       {.schedule = kCoop, .k_tiles = 1, .scale_vectors = true});
}
TEST(mutants, scale_vectors_left_on_their_way_by_who_is_not_the_last_peer) {
  const Shape shape{.k_tiles = 2, .rows = 1, .scale_vectors = true, .slices = 2};
  expect_clean(explore_all(record_gemm(make(shape))), shape);
  expect_caught(explore_all(record<NotLastForgetsVectors>(make(shape))), FailureKind::peer_gone, shape);
}
TEST(mutants, scale_vectors_staged_again_while_a_direct_store_reads) {
  Shape shape = kWarpsWithVectors;
  shape.rows = 2;
  shape.store = StorePath::direct;
  expect_all_catches<DirectStoreWithoutSyncAfter>(FailureKind::vectors_unready, shape);
}

// ---- stores ----
TEST(mutants, the_store_buffer_restarts_with_an_odd_number_of_chunks) {
  expect_both_catch<BufferRestarts>(FailureKind::store_buffer_overwritten, {.schedule = kCoop, .k_tiles = 1});
  const Shape even{.schedule = kCoop, .k_tiles = 1, .chunks = 2};
  expect_clean(explore_all(record<BufferRestarts>(make(even))), even);
}
TEST(mutants, no_wait_for_the_store_buffer) {
  expect_both_catch<NoWaitForBuffer>(FailureKind::store_buffer_overwritten, {.k_tiles = 1, .chunks = 3});
}
TEST(mutants, a_wait_that_leaves_one_store_too_many) {
  expect_both_catch<WaitsForOneTooFew>(FailureKind::store_buffer_overwritten, {.k_tiles = 1, .chunks = 3});
}
TEST(mutants, warps_that_do_not_hear_that_the_buffer_is_free) {
  const Shape shape{.k_tiles = 1, .chunks = 4, .warps_per_group = kMathWarps};
  expect_caught(expect_random_catches<NoSyncAfterBufferWait>(shape), FailureKind::store_buffer_overwritten,
                shape);
}
TEST(mutants, no_fence_before_the_store) {
  expect_both_catch<NoFence>(FailureKind::store_unpublished, {.k_tiles = 1});
}
TEST(mutants, no_group_barrier_before_the_store) {
  expect_all_catches<NoSyncBeforeStore>(FailureKind::store_unpublished,
                                        {.k_tiles = 1, .rows = 1, .warps_per_group = kMathWarps});
}
TEST(mutants, a_store_from_the_other_buffer) {
  expect_both_catch<StoresOtherBuffer>(FailureKind::store_unpublished, {.k_tiles = 1});
}
TEST(mutants, a_store_done_twice) {
  expect_both_catch<StoresTwice>(FailureKind::tile_twice, {.k_tiles = 1});
}
TEST(mutants, a_chunk_never_stored) {
  expect_both_catch<NoLastColumn>(FailureKind::tile_missing, {.k_tiles = 1, .chunks = 2});
}
TEST(mutants, a_cta_that_leaves_while_its_stores_read) {
  expect_both_catch<NoFinishStores>(FailureKind::peer_gone, {.k_tiles = 1});
}

// ---- the report ----
TEST(mutants, a_failing_seed_fails_again_in_the_same_way) {
  const Recording recording = record<ReleaseBeforeRetired>(make({.stages = 3, .k_tiles = 6, .rows = 4}));
  const Exploration found = explore_random(recording, {.seed = 12, .schedules = 1000});
  ASSERT_TRUE(found.failure && found.failure->seed);
  const Exploration again = explore_random(recording, {.seed = *found.failure->seed, .schedules = 1});
  ASSERT_TRUE(again.failure);
  EXPECT_EQ(describe(*again.failure), describe(*found.failure));
}
TEST(mutants, a_deadlock_names_who_waits_for_which_phase) {
  const Exploration found = explore_all(record<TurnNeverPassed>(make({.k_tiles = 1})));
  ASSERT_TRUE(found.failure);
  const std::string text = describe(*found.failure);
  EXPECT_NE(text.find("cta 0 math 1: wait_turn parity 0"), std::string::npos) << text;
  EXPECT_NE(text.find("turn[1] is in phase 0, 4 of 4 arrivals"), std::string::npos) << text;
  EXPECT_NE(text.find("cta 0 math 0: issue_mma stage 0"), std::string::npos) << text;
}
struct CursorThatStands : Machine {
  using Machine::Machine;
  int cluster_count() const { return 0; }
};
TEST(mutants, a_role_without_end_is_reported) {
  const Shape shape{.k_tiles = 1};
  expect_caught(explore_all(record<CursorThatStands>(make(shape))), FailureKind::endless_role, shape);
}

}  // namespace
}  // namespace sluice::twin
