// SPDX-License-Identifier: Apache-2.0
// Compares the simulated mbarrier with the definition in the PTX ISA. Fails if a phase completes too early or
// too late, or if a wait tests more than a parity.
#include <sluice/twin/barrier.h>

#include <gtest/gtest.h>

namespace sluice::twin {
namespace {

struct Words {
  u32 word = 0, tx = 0;
  Barrier barrier(int count) { return {word, tx, count}; }
};

TEST(barrier, a_fresh_one_lets_parity_1_pass_and_holds_parity_0) {
  Words words;
  Barrier b = words.barrier(2);
  b.init();
  EXPECT_TRUE(b.passes(1));
  EXPECT_FALSE(b.passes(0));
}

TEST(barrier, completes_with_the_last_arrival_and_starts_over) {
  Words words;
  Barrier b = words.barrier(3);
  b.init();
  EXPECT_TRUE(b.arrive(2));
  EXPECT_FALSE(b.passes(0));
  EXPECT_TRUE(b.arrive(1));
  EXPECT_TRUE(b.passes(0));
  EXPECT_EQ(b.phase(), 1);
  EXPECT_EQ(b.pending(), 3);
}

TEST(barrier, a_waiter_two_phases_late_cannot_tell) {
  Words words;
  Barrier b = words.barrier(1);
  b.init();
  EXPECT_TRUE(b.arrive(1));
  EXPECT_TRUE(b.passes(0));
  EXPECT_TRUE(b.arrive(1));
  EXPECT_FALSE(b.passes(0));  // phase 0 is complete, but so is phase 1, which has the other parity
}

TEST(barrier, waits_for_bytes_after_the_arrivals) {
  Words words;
  Barrier b = words.barrier(1);
  b.init();
  EXPECT_TRUE(b.add_bytes(96));
  EXPECT_TRUE(b.arrive(1));
  EXPECT_EQ(b.phase(), 0);
  EXPECT_TRUE(b.add_bytes(-32));
  EXPECT_TRUE(b.add_bytes(-64));
  EXPECT_EQ(b.phase(), 1);
}

TEST(barrier, bytes_of_a_peer_may_come_before_they_are_expected) {
  Words words;
  Barrier b = words.barrier(1);
  b.init();
  EXPECT_TRUE(b.add_bytes(-64));
  EXPECT_EQ(b.pending_bytes(), -64);
  EXPECT_TRUE(b.add_bytes(64));
  EXPECT_EQ(b.phase(), 0) << "the arrival is still missing";
  EXPECT_TRUE(b.arrive(1));
  EXPECT_EQ(b.phase(), 1);
}

TEST(barrier, refuses_more_arrivals_than_are_pending_and_more_bytes_than_it_counts) {
  Words words;
  Barrier b = words.barrier(4);
  b.init();
  EXPECT_FALSE(b.arrive(5));
  EXPECT_TRUE(b.add_bytes(Barrier::kMaxTx));
  EXPECT_FALSE(b.add_bytes(1));
}

}  // namespace
}  // namespace sluice::twin
