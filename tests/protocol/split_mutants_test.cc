// SPDX-License-Identifier: Apache-2.0
// Every planted bug in splits along k must be found (see mutants_test.cc). Some are found by rules for a
// single role or by rules of coverage, others by a search over one cluster or over a tile's peers.
#include "split_mutants.h"

#include <sluice/twin/combine.h>

#include "catching.h"

namespace sluice::twin {
namespace {

using namespace mutants;

constexpr Schedule kCoop = Schedule::cooperative;

template <class Mutant>
void expect_combine_catches(FailureKind kind, const Shape& shape) {
  expect_clean(explore_combine(record_gemm(make(shape)), {}), shape);
  expect_caught(explore_combine(record<Mutant>(make(shape)), {}), kind, shape);
  const Exploration by_chance = explore_combine(record<Mutant>(make(shape)), {.schedules = 300});
  EXPECT_TRUE(by_chance.failure) << "not caught by chance: " << text_of(shape);
}

// ---- shared tiles ----
constexpr Shape kThreePeers{.schedule = kCoop, .k_tiles = 3, .rows = 1, .slices = 3};
constexpr Shape kTwoPeersOfWarps{
    .schedule = kCoop, .k_tiles = 2, .rows = 1, .warps_per_group = 2, .slices = 2};
/// Two tiles of three k-tiles, in two slices each.
constexpr Shape kUneven{.k_tiles = 3, .rows = 2, .slices = 2};

TEST(split_mutants, an_arrival_counted_before_the_partial_is_written) {
  expect_combine_catches<CountsBeforeWriting>(FailureKind::partial_unready, kThreePeers);
  expect_combine_catches<CountsBeforeWriting>(FailureKind::partial_unready, kTwoPeersOfWarps);
}
TEST(split_mutants, a_partial_not_drained_before_the_arrival) {
  expect_combine_catches<NoMeetingBeforeCounting>(FailureKind::partial_unready, kTwoPeersOfWarps);
}
TEST(split_mutants, warps_that_do_not_wait_for_the_answer) {
  expect_combine_catches<NoMeetingAfterCounting>(FailureKind::partial_unready, kTwoPeersOfWarps);
}
TEST(split_mutants, a_counter_that_wraps_one_too_late) {
  expect_combine_catches<WrongBound<1>>(FailureKind::wrong_election, kThreePeers);
}
TEST(split_mutants, a_counter_that_wraps_one_too_early) {
  expect_combine_catches<WrongBound<-1>>(FailureKind::partial_unready, kThreePeers);
}
TEST(split_mutants, a_counter_reset_before_it_is_used) {
  expect_combine_catches<ResetsBeforeCounting>(FailureKind::wrong_election, kThreePeers);
}
TEST(split_mutants, a_counter_reset_by_every_peer) {
  expect_combine_catches<ResetsAfterCounting>(FailureKind::wrong_election, kThreePeers);
}
TEST(split_mutants, a_peer_that_does_not_count_itself) {
  expect_combine_catches<CountsOneTooFew>(FailureKind::wrong_election, kThreePeers);
}
TEST(split_mutants, a_last_peer_that_counts_again) {
  expect_combine_catches<LastCountsAgain>(FailureKind::counter_left, kThreePeers);
}
TEST(split_mutants, sums_added_up_before_the_election) {
  expect_combine_catches<SumsBeforeTheElection>(FailureKind::partial_unready, kThreePeers);
}
TEST(split_mutants, a_slot_left_out) {
  expect_both_catch<LeavesOutTheLastSlot>(FailureKind::accumulator_wrong, kThreePeers);
}
TEST(split_mutants, a_last_peer_that_adds_nothing_up) {
  expect_both_catch<SumsNothing>(FailureKind::accumulator_wrong, kThreePeers);
}
TEST(split_mutants, peers_that_store_without_winning) {
  expect_both_catch<StoresWithoutWinning>(FailureKind::tile_twice, kThreePeers);
}
TEST(split_mutants, a_tile_that_no_peer_stores) {
  expect_both_catch<NobodyStores>(FailureKind::tile_missing, kThreePeers);
}
TEST(split_mutants, one_slot_for_all_peers) {
  expect_both_catch<SameSlotForAll>(FailureKind::workspace_overlap, kThreePeers);
}
TEST(split_mutants, slots_that_overlap_the_next_tiles) {
  expect_both_catch<SlotsOfTheNextTile>(FailureKind::workspace_overlap, kUneven);
}
TEST(split_mutants, one_counter_for_all_tiles) {
  expect_both_catch<OneCounterForAllTiles>(FailureKind::workspace_overlap, kUneven);
}
TEST(split_mutants, slices_that_all_begin_at_the_first_k_tile) {
  expect_both_catch<SlicesFromTheFirstKTile>(FailureKind::wrong_bytes, kUneven);
}

// ---- the exchange ----
constexpr Shape kPair{.schedule = kCoop, .k_tiles = 2, .rows = 1, .cluster = {.k = 2}};
/// Sums are exchanged in two passes per tile.
constexpr Shape kPairOfTwoPasses{
    .schedule = kCoop, .k_tiles = 2, .rows = 1, .cluster = {.k = 2}, .chunks = 2};

TEST(split_mutants, sums_sent_before_the_last_ones_are_read) {
  expect_both_catch<NoWaitForSumsEmpty>(FailureKind::exchange_overwritten, kPairOfTwoPasses);
}
TEST(split_mutants, a_cta_that_leaves_before_its_sums_are_read) {
  expect_both_catch<LeavesBeforeSumsAreRead>(FailureKind::peer_gone, kPair);
}
TEST(split_mutants, sums_read_before_they_have_come) {
  expect_both_catch<NoWaitForSums>(FailureKind::exchange_unready, kPair);
}
TEST(split_mutants, a_wrong_parity_of_the_wait_for_sums) {
  expect_both_catch<WrongSumsParity>(FailureKind::exchange_unready, kPair);
}
TEST(split_mutants, room_for_sums_given_back_before_reading) {
  expect_both_catch<ReleasesSumsBeforeReading>(FailureKind::exchange_overwritten, kPairOfTwoPasses);
}
TEST(split_mutants, sums_not_sent_to_one_cta) {
  expect_both_catch<SendsToAllButOne>(FailureKind::deadlock, kPair);
}
TEST(split_mutants, sums_not_sent_to_itself) {
  expect_both_catch<SendsOnlyToOthers>(FailureKind::deadlock, kPair);
}
TEST(split_mutants, sums_sent_twice) {
  expect_both_catch<SendsTwice>(FailureKind::exchange_overwritten, kPair);
}
TEST(split_mutants, sums_of_another_pass) {
  expect_both_catch<SendsAnotherPass>(FailureKind::wrong_bytes, kPairOfTwoPasses);
}
TEST(split_mutants, room_not_given_back_to_one_cta) {
  expect_both_catch<ReleasesSumsToAllButOne>(FailureKind::deadlock, kPair);
}
TEST(split_mutants, room_given_back_twice) {
  expect_both_catch<ReleasesSumsTwice>(FailureKind::lost_signal, kPair);
}
TEST(split_mutants, too_few_bytes_of_sums_expected) {
  // The bytes that one CTA sends. In the twin the sums of a CTA arrive together, on the GPU in pieces of 16
  // bytes.
  expect_both_catch<WrongExpectedSums<-8192>>(FailureKind::exchange_unready, kPair);
}
TEST(split_mutants, too_many_bytes_of_sums_expected) {
  expect_both_catch<WrongExpectedSums<16>>(FailureKind::deadlock, kPair);
}
TEST(split_mutants, sums_expected_of_rows_outside) {
  Shape shape = kPair;
  shape.short_rows = 100;
  expect_both_catch<ExpectsSumsOfRowsOutside>(FailureKind::deadlock, shape);
}
TEST(split_mutants, sums_never_read) {
  expect_both_catch<NoReceive>(FailureKind::accumulator_wrong, kPair);
}
TEST(split_mutants, all_columns_stored_by_every_cta) {
  Shape shape = kPair;
  shape.store = StorePath::direct;
  expect_both_catch<StoresAllColumns>(FailureKind::tile_twice, shape);
}
TEST(split_mutants, stages_released_to_peers_that_do_not_multicast) {
  expect_both_catch<ReleasesStagesToPeers>(FailureKind::lost_signal, kPair);
}
TEST(split_mutants, every_cta_takes_the_first_part_of_k) {
  expect_both_catch<AllTakeTheFirstPart>(FailureKind::tile_twice, kPair);
}

}  // namespace
}  // namespace sluice::twin
