// SPDX-License-Identifier: Apache-2.0
// Measures a packed shape through bench/ on a driver that computes nothing: contenders, recorded failures,
// and everything freed. D stays poison, so no result is right. To see it fail: do not poison or do not
// compare DeviceData's D; a kernel that does nothing is then verified.
#include <gtest/gtest.h>

#include <algorithm>

#include <sluice/bench/session.h>
#include "lab_fixture.h"
#include "tests/packed_problems.h"

namespace sluice::bench {
namespace {

class PackedSession : public LabFixture {
 protected:
  PackedSession() : LabFixture({.rounds = 3}) {}

  ShapeRecord measured(const Request& request) {
    const Result<Plan> plan = plan_of(request, lab_->device.info(), lab_->device.records());
    return plan ? measure_shape(*lab_, {.request = request, .plan = *plan}, kSilent)
                : unplanned_shape(request, plan.error());
  }

  const ContenderRecord& contender(const ShapeRecord& shape, const char* name) {
    for (const ContenderRecord& c : shape.contenders)
      if (c.name == name) return c;
    ADD_FAILURE() << "no " << name;
    return shape.contenders.front();
  }

  const Request case_{.problem = PackedProblem{.m = 16, .n = 256, .k = 256, .weights = {.group = 64}}};
};

TEST_F(PackedSession, times_all_contenders_and_gives_everything_back) {
  measured(case_);  // loads modules that stay loaded
  const Alive before = driver_.alive();
  const ShapeRecord shape = measured(case_);
  EXPECT_EQ(shape.error, "");
  EXPECT_EQ(shape.copies, kMostCopies);
  for (const char* name : {kSluice, kReadFloor, kSluiceFp8}) {
    const ContenderRecord& c = contender(shape, name);
    EXPECT_EQ(c.error, "") << name;
    EXPECT_DOUBLE_EQ(c.us.median, 250.0 / c.launches) << name;
    EXPECT_GE(c.launches, shape.copies) << name;
  }
  for (const char* name : {kFp8PeerBest, kHalfPeerBest})
    EXPECT_NE(contender(shape, name).error.find("/no/such/libcublasLt.so"), std::string::npos);
  EXPECT_GT(contender(shape, kSluice).host_us, 0);
  EXPECT_EQ(contender(shape, kReadFloor).bytes, blob_bytes(case_.problem.b.packed, 256, 256));
  Alive after = driver_.alive();
  after.modules = before.modules;
  EXPECT_EQ(after, before);
}

/// The data that problems share must be packed in the same way as the problem's own.
TEST_F(PackedSession, gated_halves_that_are_no_whole_strips_have_a_blob_of_their_own) {
  Request gated = case_;
  gated.problem.n = 144;
  gated.problem.epilogue.gated = true;
  const ShapeRecord shape = measured(gated);
  EXPECT_EQ(shape.error, "");
  EXPECT_EQ(contender(shape, kSluice).error, "");
  EXPECT_EQ(contender(shape, kReadFloor).bytes, gated_blob_bytes(case_.problem.b.packed, 144, 256));
}

TEST_F(PackedSession, a_kernel_that_writes_nothing_is_not_verified) {
  const ShapeRecord shape = measured(case_);
  const ContenderRecord& ours = contender(shape, kSluice);
  EXPECT_FALSE(ours.verified);
  EXPECT_NE(ours.verdict.find("4096 elements checked, 4096 wrong"), std::string::npos) << ours.verdict;
  EXPECT_NE(ours.verdict.find("4096 of them never written"), std::string::npos) << ours.verdict;
  EXPECT_FALSE(all_verified(shape));
  EXPECT_EQ(ratio(shape, kSluice, kReadFloor), 0);
}

/// The fake driver computes nothing, so every candidate is wrong. BenchSession tests tuning with right ones.
TEST_F(PackedSession, tuning_times_no_candidate_that_is_wrong) {
  lab_->method.tune = 4;
  const ShapeRecord shape = measured(case_);
  EXPECT_EQ(shape.candidates.size(), 4u);
  for (const CandidateRecord& c : shape.candidates) {
    EXPECT_EQ(c.us, 0) << c.name << c.error;
    EXPECT_FALSE(c.verified);
    EXPECT_GT(c.estimate.total_us, 0);
  }
  EXPECT_EQ(std::count_if(shape.contenders.begin(), shape.contenders.end(),
                          [](const auto& c) { return c.name == kSluiceTuned; }),
            0);
}

TEST_F(PackedSession, what_cannot_be_planned_or_is_empty_is_an_error_of_the_shape) {
  Request bad = case_;
  bad.problem.a.ld = 252;
  EXPECT_NE(measured(bad).error.find("a.ld"), std::string::npos);
  bad = case_;
  bad.problem.k = 0;
  EXPECT_NE(measured(bad).error.find("empty"), std::string::npos);
}

TEST_F(PackedSession, any_single_failing_call_is_survived_and_recorded) {
  measured(case_);
  Alive before = driver_.alive();
  driver_.fail_nothing();
  measured(case_);
  const int calls = driver_.calls();
  for (int index = 0; index < calls; index += 1 + calls / 60) {
    driver_.fail_call(index, CUDA_ERROR_UNKNOWN);
    const ShapeRecord shape = measured(case_);
    const std::string failed = driver_.last_failed();
    driver_.fail_nothing();
    if (failed.empty()) continue;  // fewer calls than before, because known addresses are not queried again
    const bool gives_back = failed == "cuMemFree" || failed == "cuModuleUnload" ||
                            failed == "cuThreadExchangeStreamCaptureMode" ||
                            failed.find("Destroy") != std::string::npos || failed.starts_with("cuCtx");
    const bool complete = std::none_of(shape.contenders.begin(), shape.contenders.end(), [](const auto& c) {
      return !c.error.empty() && c.name != kFp8PeerBest && c.name != kHalfPeerBest;
    });
    EXPECT_TRUE(gives_back || !shape.error.empty() || !complete || contender(shape, kSluice).host_us == 0)
        << failed << ", call " << index;
    Alive after = driver_.alive();
    before.modules = after.modules = 0;
    EXPECT_EQ(after, before) << "call " << index << " of " << calls;
  }
}

}  // namespace
}  // namespace sluice::bench
