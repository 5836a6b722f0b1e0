// SPDX-License-Identifier: Apache-2.0
// Measures a shape through bench/ on a driver that computes nothing. Failures are stored in the record
// instead of being returned, and every driver object is freed. Times are the fake driver's. To see it fail:
// leave out "checked > 0" in verify_entrant, so that an unchecked kernel counts as right. Or make one copy
// too few in a cold run, or ignore an error of time_in_turn.
#include <gtest/gtest.h>

#include <sluice/bench/session.h>
#include "bench/measure.h"
#include "bench/shapes.h"
#include "lab_fixture.h"

namespace sluice::bench {
namespace {

class BenchSession : public LabFixture {
 protected:
  BenchSession() : LabFixture({.rounds = 3}) {}

  ShapeRecord measured(const Request& request) {
    const Result<Plan> plan = plan_of(request, lab_->device.info(), lab_->device.records());
    return plan ? measure_shape(*lab_, {.request = request, .plan = *plan}, kSilent)
                : unplanned_shape(request, plan.error());
  }

  const Request case_{.problem = plain_problem(256, 256, 128, DType::bf16)};
};

TEST_F(BenchSession, a_shape_is_timed_and_gives_everything_back) {
  measured(case_);  // loads modules that stay loaded
  const Alive before = driver_.alive();
  const ShapeRecord shape = measured(case_);
  EXPECT_EQ(shape.error, "");
  EXPECT_GT(shape.copies, 1);
  ASSERT_EQ(shape.contenders.size(), 2u);
  const ContenderRecord& ours = shape.contenders[0];
  EXPECT_EQ(ours.error, "");
  EXPECT_EQ(ours.name, kSluice);
  EXPECT_EQ(ours.rounds.size(), 3u);
  EXPECT_DOUBLE_EQ(ours.us.median,
                   250.0 / ours.launches);  // the fake clock advances 0.25 ms between any two events
  EXPECT_GE(ours.launches, shape.copies);
  EXPECT_GT(ours.host_us, 0);
  Alive after = driver_.alive();
  after.modules = before.modules;  // kernels may stay loaded
  EXPECT_EQ(after, before);
}

TEST_F(BenchSession, what_nobody_checked_is_not_verified) {
  const ShapeRecord shape = measured(case_);
  EXPECT_FALSE(shape.contenders.at(0).verified);  // the fake driver's checking kernel reads no element
  EXPECT_FALSE(all_verified(shape));
}

TEST_F(BenchSession, a_missing_peer_is_written_down) {
  const ShapeRecord shape = measured(case_);
  EXPECT_EQ(shape.contenders.at(1).name, kPeerFirst);
  EXPECT_NE(shape.contenders.at(1).error.find("/no/such/libcublasLt.so"), std::string::npos);
  EXPECT_EQ(ratio(shape, kSluice, kPeerFirst), 0);
}

TEST_F(BenchSession, tuning_records_candidates_and_keeps_one_tuned_contender) {
  lab_->method.tune = 4;
  const ShapeRecord shape = measured(case_);
  EXPECT_EQ(shape.candidates.size(), 4u);
  for (const CandidateRecord& c : shape.candidates) {
    EXPECT_GT(c.us, 0) << c.name << c.error;
    EXPECT_GT(c.estimate.total_us, 0);
    EXPECT_NE(c.config.find(".tile"), std::string::npos);
  }
  int tuned = 0;
  for (const ContenderRecord& c : shape.contenders) tuned += c.name == kSluiceTuned;
  EXPECT_EQ(tuned, 1);
}

TEST_F(BenchSession, a_problem_that_cannot_be_planned_is_an_error_of_the_shape) {
  const ShapeRecord shape = measured({.problem = plain_problem(64, 64, 100, DType::e4m3)});
  EXPECT_NE(shape.error.find("misaligned"), std::string::npos) << shape.error;
  EXPECT_TRUE(shape.contenders.empty());
}

TEST_F(BenchSession, no_memory_is_an_error_of_the_shape) {
  driver_.fail_function("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY);
  const ShapeRecord shape = measured(case_);
  EXPECT_NE(shape.error, "");
  driver_.fail_nothing();
  EXPECT_EQ(measured(case_).error, "");
}

TEST_F(BenchSession, a_graph_that_fails_is_an_error_of_the_contender) {
  driver_.fail_function("cuGraphInstantiate", CUDA_ERROR_OUT_OF_MEMORY);
  const ShapeRecord shape = measured(case_);
  EXPECT_EQ(shape.error, "");
  EXPECT_NE(shape.contenders.at(0).error, "");
  EXPECT_EQ(median_of(shape, kSluice), 0);
}

TEST_F(BenchSession, a_lost_gpu_is_noticed) {
  EXPECT_TRUE(still_alive(*lab_));
  driver_.fail_function("cuCtxSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_FALSE(still_alive(*lab_));
}

/// If any driver call fails, measure_shape() records the failure and frees everything.
TEST_F(BenchSession, any_single_failing_call_is_survived_and_recorded) {
  measured(case_);  // loads modules that stay loaded
  Alive before = driver_.alive();
  driver_.fail_nothing();
  measured(case_);
  const int calls = driver_.calls();
  for (int index = 0; index < calls; index += 1 + calls / 150) {
    driver_.fail_call(index, CUDA_ERROR_UNKNOWN);
    const ShapeRecord shape = measured(case_);
    const std::string failed = driver_.last_failed();
    if (failed.empty()) continue;  // fewer calls than before, because known addresses are not queried again
    const bool gives_back = failed == "cuMemFree" || failed == "cuModuleUnload" ||
                            failed == "cuThreadExchangeStreamCaptureMode" ||
                            failed.find("Destroy") != std::string::npos ||
                            failed.starts_with("cuCtx");  // also covers a destructor's calls to the context
    const auto complete = [](const ContenderRecord& ours) { return ours.error.empty() && ours.host_us > 0; };
    EXPECT_TRUE(gives_back || !shape.error.empty() || !complete(shape.contenders.at(0))) << failed;
    before.modules = driver_.alive().modules;  // kernels may stay loaded
    EXPECT_EQ(driver_.alive(), before) << failed;
  }
  driver_.fail_nothing();
  EXPECT_EQ(measured(case_).contenders.at(0).error, "");
}

TEST_F(BenchSession, every_contender_has_every_turn) {
  std::vector<Replay> replays;
  for (int who = 0; who < 3; ++who) {
    const Contender contender{.name = "c", .launch = [](int, Stream) { return Result<void>{}; }};
    Result<Replay> replay = capture_replay(*lab_, contender, 1, 2);
    ASSERT_TRUE(replay);
    replays.push_back(std::move(*replay));
  }
  const auto times = time_in_turn(*lab_, replays, {.count = 5, .rest_ms = 0});
  ASSERT_TRUE(times);
  for (const Timed& timed : *times) {
    EXPECT_EQ(timed.us.size(), 5u);
    EXPECT_TRUE(timed.sm_mhz.empty());                           // clocks are not measured
    for (const double us : timed.us) EXPECT_DOUBLE_EQ(us, 125);  // 0.25 ms over two launches
  }
}

}  // namespace
}  // namespace sluice::bench
