// SPDX-License-Identifier: Apache-2.0
// The tuner's GPU machine on a driver that computes nothing: kernels load, are timed and given back; what
// nobody checked is not right; and whichever call fails, the search ends with a reason. How this can fail:
// without entries_.clear() in open, a graph of the first problem outlived its operands.
#include <gtest/gtest.h>

#include "bench/shapes.h"
#include "bench/tune_gpu.h"
#include "lab_fixture.h"

namespace sluice::bench {
namespace {

class TuneGpu : public LabFixture {
 protected:
  TuneGpu() : LabFixture({.peer = false}) {}

  TuneRun search() {
    GpuTuneMachine machine(*lab_);
    const std::vector<Problem> problems{problem_, problem_};
    return tune(machine, lab_->device.info(), problems, {.top = 3},
                {.known = nullptr, .phase = kSilent, .finished = nullptr});
  }

  const Problem problem_ = plain_problem(256, 256, 128, DType::bf16);
};

TEST_F(TuneGpu, kernels_are_timed_cold_and_everything_is_given_back) {
  const Plan plan = *gemm::plan(problem_, lab_->device.info(), {}, RecordBook());
  Alive before;
  {
    GpuTuneMachine machine(*lab_);
    ASSERT_TRUE(machine.open(problem_));
    ASSERT_TRUE(machine.prepare(std::vector{plan})[0]);
    before = driver_.alive();
  }
  {
    GpuTuneMachine machine(*lab_);
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_TRUE(machine.open(problem_));
      EXPECT_GT(machine.copies(), 1);
      const std::vector<Result<int>> kernels = machine.prepare(std::vector{plan, plan});
      ASSERT_TRUE(kernels.at(0) && kernels.at(1));
      EXPECT_EQ(*kernels[0], 0) << "those of the problem before are gone";
      EXPECT_EQ(*kernels[1], 1);
      for (const Effort effort : {Effort::screen, Effort::careful}) {
        const Result<double> us = machine.time(*kernels[1], effort);
        ASSERT_TRUE(us) << us.error().message;
        EXPECT_GT(*us, 0);
      }
    }
  }
  Alive after = driver_.alive();
  EXPECT_EQ(after.graphs, 0);
  EXPECT_EQ(after.executables, 0);
  EXPECT_LT(after.allocations, before.allocations) << "the operands are gone";
}

TEST_F(TuneGpu, what_nobody_checked_is_not_right) {
  GpuTuneMachine machine(*lab_);
  ASSERT_TRUE(machine.open(problem_));
  const Plan plan = *gemm::plan(problem_, lab_->device.info(), {}, RecordBook());
  const Result<std::string> checked = machine.check(*machine.prepare(std::vector{plan})[0]);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("looked at no element"), std::string::npos);
  const TuneRun run = search();
  EXPECT_EQ(run.results.at(0).state, TuneState::failed);
  EXPECT_FALSE(run.ended);
}

TEST_F(TuneGpu, any_single_failing_call_is_survived) {
  search();
  driver_.fail_nothing();
  search();
  const int calls = driver_.calls();
  for (int index = 0; index < calls; index += 1 + calls / 100) {
    driver_.fail_call(index, CUDA_ERROR_UNKNOWN);
    for (const TuneResult& result : search().results) EXPECT_NE(result.state, TuneState::tuned);
  }
}

TEST_F(TuneGpu, a_lost_gpu_ends_the_run) {
  driver_.fail_function("cuCtxSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS);
  const TuneRun run = search();
  EXPECT_TRUE(run.ended);
  EXPECT_EQ(run.results.at(1).state, TuneState::no_time);
}

}  // namespace
}  // namespace sluice::bench
