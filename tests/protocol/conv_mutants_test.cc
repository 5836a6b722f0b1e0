// SPDX-License-Identifier: Apache-2.0
// Every planted bug of convolutions must be found, by the right rule, in a scenario that has no fault without
// it.
#include "conv_mutants.h"

#include "conv_scenarios.h"

namespace sluice::twin {
namespace {

using namespace mutants;

template <class Mutant>
void expect_caught(FailureKind kind, const ConvCase& c) {
  SCOPED_TRACE(text_of(c));
  const Scenario scenario = scenario_of(c);
  const Exploration clean = explore_random(record_gemm(scenario), {.schedules = 20});
  ASSERT_FALSE(clean.failure) << describe(*clean.failure);
  const Exploration found = explore_random(record<Mutant>(scenario), {.seed = 1, .schedules = 200});
  ASSERT_TRUE(found.failure) << "not caught";
  EXPECT_STREQ(name_of(found.failure->kind), name_of(kind)) << describe(*found.failure);
}

ConvCase odd_case(ConvOp op, int spatial = 2) {
  return {.conv = odd_conv(op, spatial), .config = kSmallPingPong};
}
ConvCase unstrided(ConvOp op) {
  ConvCase c = odd_case(op);
  c.conv.stride = kOnes;
  return c;
}

// ---- walks ----
TEST(conv_mutants, a_filter_walk_that_stands_still_early) {
  ConvCase c = odd_case(ConvOp::fprop);
  c.config.overlap = {.wait = Wait::weights_first, .trigger = Trigger::after_loads};
  expect_caught<FilterWalkStandsStillEarly>(FailureKind::wrong_boxes, c);
}
TEST(conv_mutants, one_walk_for_both_operands) {
  expect_caught<OneWalkForBothOperands>(FailureKind::wrong_boxes, odd_case(ConvOp::fprop));
  expect_caught<OneWalkForBothOperands>(FailureKind::wrong_boxes, odd_case(ConvOp::dgrad));
}
TEST(conv_mutants, a_slice_that_begins_with_the_tile) {
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad}) {
    ConvCase c = unstrided(op);
    c.config.combine = Combine::last_arriver;
    c.slices = 2;
    expect_caught<WalkBeginsWithTheTile>(FailureKind::wrong_boxes, c);
  }
}
TEST(conv_mutants, a_slice_that_is_forgotten) {
  ConvCase rows = odd_case(ConvOp::fprop);
  rows.config.cluster = {1, 2};
  expect_caught<WalkForgetsTheSlice>(FailureKind::wrong_boxes, rows);
  ConvCase columns = odd_case(ConvOp::wgrad);
  columns.config.cluster = {2, 1};
  expect_caught<WalkForgetsTheSlice>(FailureKind::wrong_boxes, columns);
}
TEST(conv_mutants, pixels_without_a_carry) {
  expect_caught<PixelsWithoutCarry>(FailureKind::wrong_boxes, odd_case(ConvOp::wgrad, 1));
}
TEST(conv_mutants, one_block_of_channels_too_many) {
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad, ConvOp::wgrad})
    expect_caught<OneBlockTooMany>(FailureKind::wrong_boxes, odd_case(op));
}
TEST(conv_mutants, taps_that_are_not_reversed) {
  expect_caught<TapsNotReversed>(FailureKind::wrong_boxes, unstrided(ConvOp::dgrad));
}

// ---- bytes ----
TEST(conv_mutants, all_atoms_of_the_last_tile_expected) {
  ConvCase c = odd_case(ConvOp::wgrad, 1);
  c.config.tile.n = 256;  // 3 taps of 2 channel blocks are 6 atoms, so the second tile has 2
  expect_caught<AllAtomsExpected>(FailureKind::deadlock, c);
}
TEST(conv_mutants, no_atom_of_a_tile_outside) {
  ConvCase c = odd_case(ConvOp::wgrad, 1);
  c.conv.filter = kOnes;
  c.conv.channels = 24;
  c.config.cluster = {1, 2};
  expect_caught<NoAtomOutside>(FailureKind::stage_unready, c);
}
TEST(conv_mutants, a_whole_box_expected_of_the_last_rows) {
  for (const ConvOp op : {ConvOp::fprop, ConvOp::dgrad})
    expect_caught<NoShorterBoxExpected>(FailureKind::deadlock, unstrided(op));
}
TEST(conv_mutants, a_shorter_box_expected_of_a_phase) {
  expect_caught<ShorterBoxOfAPhaseExpected>(FailureKind::deadlock, odd_case(ConvOp::dgrad));
}

// ---- phases ----
/// A dgrad with phases of two taps and of one.
ConvCase uneven_phases() {
  ConvCase c = odd_case(ConvOp::dgrad, 1);
  c.conv.filter.w = 3;
  c.conv.stride.w = 2;
  c.conv.dilation.w = 1;
  return c;
}

TEST(conv_mutants, k_tiles_of_the_next_phase) {
  expect_caught<ChangedPhases<next_k_tiles>>(FailureKind::accumulator_wrong, uneven_phases());
}
TEST(conv_mutants, k_tiles_of_the_first_phase) {
  expect_caught<ChangedPhases<first_k_tiles>>(FailureKind::wrong_boxes, uneven_phases());
}
TEST(conv_mutants, a_load_role_with_the_largest_phase) {
  expect_caught<LoadsTheLargestPhase>(FailureKind::wrong_boxes, uneven_phases());
}
TEST(conv_mutants, taps_of_the_first_phase) {
  expect_caught<ChangedPhases<first_taps>>(FailureKind::wrong_boxes, uneven_phases());
}
TEST(conv_mutants, pixels_of_the_first_phase) {
  ConvCase c = uneven_phases();
  c.conv.size.w = 12;  // phases have equally many pixels, at different places
  c.conv.filter.w = 4;
  c.conv.padding.w = 1;
  expect_caught<ChangedPhases<first_pixels>>(FailureKind::wrong_boxes, c);
}
TEST(conv_mutants, rows_of_a_phase_stored_as_neighbours) {
  ConvCase c = uneven_phases();
  c.conv.images = 30;  // more rows than one wave of stores (kWaveRows)
  expect_caught<StoresRowsOfAPhase>(FailureKind::wrong_boxes, c);
}

// ---- coverage ----
/// Bugs: a launch omits the last phase, or the last atom of a filter's gradient.
TEST(conv_mutants, outputs_that_belong_to_nobody) {
  Scenario phases = scenario_of(uneven_phases());
  --phases.batch;
  const Recording without_one = record_gemm(phases);
  ASSERT_TRUE(without_one.failure);
  EXPECT_EQ(without_one.failure->kind, FailureKind::tile_missing) << describe(*without_one.failure);

  Scenario columns = scenario_of(odd_case(ConvOp::wgrad));
  columns.n -= kMnBlock;
  const Recording narrower = record_gemm(columns);
  ASSERT_TRUE(narrower.failure);
  EXPECT_EQ(narrower.failure->kind, FailureKind::tile_missing) << describe(*narrower.failure);
}

}  // namespace
}  // namespace sluice::twin
