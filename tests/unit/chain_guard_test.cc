// SPDX-License-Identifier: Apache-2.0
// The guard of a chain, on the fake driver, which makes overlapped replays faster or slower. To see it fail:
// return the found chain in searched() (chain/tuning/tune.cc), or leave p90 out of is_safely_faster.
#include <gtest/gtest.h>

#include <sluice/chain/tuning/tune.h>

#include "chain_fixture.h"

namespace sluice {
namespace {

class ChainGuards : public ChainTest {
 protected:
  /// Returns true if the guarded chain uses overlap.
  bool overlaps_with(const ChainOptions& options = {}) {
    const Alive before = driver.alive();
    const Result<Chain> chain = Chain::guarded(device(), steps_, options);
    EXPECT_TRUE(chain.ok()) << (chain.ok() ? "" : chain.error().message);
    if (!chain) return false;
    EXPECT_EQ(driver.alive().allocations, before.allocations);
    EXPECT_EQ(driver.alive().graphs + driver.alive().executables, 0);
    EXPECT_EQ(driver.alive().streams, before.streams);
    return chain->programmatic_edges() > 0;
  }
  std::vector<ChainStep> steps_ = links(4);
};

TEST_F(ChainGuards, an_overlap_that_gains_stays) {
  driver.make_overlap_gain(0.0005f);
  EXPECT_TRUE(overlaps_with());
  EXPECT_TRUE(overlaps_with({.overlap = ChainOverlap::wait_first}));
}

TEST_F(ChainGuards, an_overlap_that_loses_or_hardly_gains_is_left_out) {
  driver.make_overlap_gain(-0.0005f);
  EXPECT_FALSE(overlaps_with());
  driver.make_overlap_gain(0.0f);
  EXPECT_FALSE(overlaps_with()) << "no gain is no reason";
  driver.make_overlap_gain(0.0005f);
  EXPECT_FALSE(overlaps_with({.overlap = ChainOverlap::off}));
}

/// The overlapped chain is faster but has wrong results, as if a launch read its input too early.
TEST_F(ChainGuards, an_overlap_with_other_results_is_left_out) {
  driver.make_overlap_gain(0.0005f);
  driver.make_wrong([](const LaunchRecord& launch) { return launch.dependent; });
  EXPECT_FALSE(overlaps_with());
  driver.make_wrong([](const LaunchRecord&) { return true; });
  EXPECT_TRUE(overlaps_with()) << "alike in both chains";
}

TEST_F(ChainGuards, without_memory_to_compare_results_the_overlap_is_left_out) {
  driver.make_overlap_gain(0.0005f);
  driver.machine.memory_bytes = kRows * kWidth;  // too little memory for two copies of the chain's outputs
  EXPECT_FALSE(overlaps_with());
}

TEST_F(ChainGuards, the_spacing_that_was_asked_for_wins_a_tie) {
  driver.make_overlap_gain(0.0005f);
  const Result<Chain> chain = Chain::guarded(device(), steps_);
  ASSERT_TRUE(chain.ok());
  EXPECT_EQ(chain->plan().steps[1].overlap.spacing, Spacing::even);
}

TEST_F(ChainGuards, safely_faster_is_one_percent_and_nine_rounds_of_ten) {
  const Quantiles off{.median = 100, .p10 = 99, .p90 = 101};
  EXPECT_TRUE(is_safely_faster({.median = 98.9, .p10 = 98, .p90 = 99.9}, off));
  EXPECT_FALSE(is_safely_faster({.median = 90, .p10 = 90, .p90 = 101}, off)) << "two slow rounds";
  EXPECT_FALSE(is_safely_faster({.median = 99.5, .p10 = 99.5, .p90 = 99.5}, off));
  EXPECT_FALSE(is_safely_faster(off, off));
}

TEST_F(ChainGuards, errors_are_those_of_the_chain) {
  product(steps_[1]).args.b = nullptr;
  const Result<Chain> chain = Chain::guarded(device(), steps_);
  ASSERT_FALSE(chain.ok());
  EXPECT_NE(chain.error().message.find("link1"), std::string::npos) << chain.error().message;
  const Result<Chain> empty = Chain::guarded(device(), {});
  EXPECT_TRUE(empty.ok()) << "nothing to launch, nothing to time";
}

}  // namespace
}  // namespace sluice
