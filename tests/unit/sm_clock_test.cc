// SPDX-License-Identifier: Apache-2.0
// The clock that bench/ measures: the mean over SMs, and the kernel that records it. The fake driver's SMs
// record nothing. To see it fail: count an SM that recorded only one edge as a clock of 0.
#include <gtest/gtest.h>

#include <sluice/run/jit/compiler.h>

#include "bench/measure.h"
#include "bench/sm_clock.h"
#include "lab_fixture.h"

namespace sluice::bench {
namespace {

TEST(sm_clock, is_the_mean_of_the_sms_that_noted_both_edges) {
  const ClockNote begin[] = {{1000, 5000}, {77, 6000}, {5, 0}, {9, 9000}};
  const ClockNote end[] = {{1000 + 3000, 5000 + 2000}, {77 + 1000, 6000 + 1000}, {50, 7000}, {9, 0}};
  EXPECT_DOUBLE_EQ(mean_mhz(begin, end), (1500.0 + 1000.0) / 2);
  EXPECT_EQ(mean_mhz(std::span(begin).subspan(2), std::span(end).subspan(2)), 0);
  EXPECT_EQ(mean_mhz({}, {}), 0);
}

TEST(sm_clock, its_kernel_compiles_for_hopper) {
  const auto compiler = Compiler::load("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  const auto cubin = (*compiler)->compile(SmClock::unit_text());
  ASSERT_TRUE(cubin) << cubin.error().message;
  EXPECT_EQ(cubin->report.spill_bytes, 0);
}

struct SmClockLab : LabFixture {
  SmClockLab() : LabFixture({}) {}
};

TEST_F(SmClockLab, rounds_have_a_clock_where_it_is_asked_for) {
  const Contender contender{.name = "c", .launch = [](int, Stream) { return Result<void>{}; }};
  const Result<Replay> replay = capture_replay(*lab_, contender, 1, 2);
  ASSERT_TRUE(replay);
  const auto timed = time_in_turn(*lab_, std::span(&*replay, 1), {.count = 4, .rest_ms = 0, .clocks = true});
  ASSERT_TRUE(timed);
  EXPECT_EQ(timed->front().us.size(), 4u);
  EXPECT_EQ(timed->front().sm_mhz, std::vector<double>(4));
  lab_->clock.reset();
  const auto blind = time_in_turn(*lab_, std::span(&*replay, 1), {.count = 4, .rest_ms = 0, .clocks = true});
  ASSERT_TRUE(blind);
  EXPECT_EQ(blind->front().us.size(), 4u);
  EXPECT_TRUE(blind->front().sm_mhz.empty());
}

TEST_F(SmClockLab, a_clock_that_cannot_be_read_is_an_error) {
  const Contender contender{.name = "c", .launch = [](int, Stream) { return Result<void>{}; }};
  const Result<Replay> replay = capture_replay(*lab_, contender, 1, 2);
  ASSERT_TRUE(replay);
  driver_.fail_function("cuMemcpyDtoH", CUDA_ERROR_UNKNOWN);
  EXPECT_FALSE(time_in_turn(*lab_, std::span(&*replay, 1), {.count = 1, .rest_ms = 0, .clocks = true}));
  EXPECT_TRUE(time_in_turn(*lab_, std::span(&*replay, 1), {.count = 1, .rest_ms = 0}));
}

}  // namespace
}  // namespace sluice::bench
