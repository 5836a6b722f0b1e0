// SPDX-License-Identifier: Apache-2.0
// The tuner's GPU machine on a driver that computes nothing: kernels are loaded, timed and freed. Unchecked
// results do not count as right, and any failing call ends the search with a reason. To see it fail: leave
// out entries_.clear() in open; a graph of the first problem then outlives its operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "bench/shapes.h"
#include "bench/tune/gpu.h"
#include "lab_fixture.h"
#include "tests/packed_problems.h"

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
    ASSERT_TRUE(machine.prepare(std::vector<Plan>{plan})[0]);
    before = driver_.alive();
  }
  {
    GpuTuneMachine machine(*lab_);
    for (int turn = 0; turn < 2; ++turn) {
      ASSERT_TRUE(machine.open(problem_));
      EXPECT_GT(machine.copies(), 1);
      const std::vector<Result<int>> kernels = machine.prepare(std::vector<Plan>{plan, plan});
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
  const Result<std::string> checked = machine.check(*machine.prepare(std::vector<Plan>{plan})[0]);
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

/// Packed weights. The fake driver computes no results, so they are wrong and reported.
class TuneGpuPacked : public TuneGpu {
 protected:
  static std::vector<Plan> plans_of(const PackedProblem& problem) {
    std::vector<Plan> plans = *candidates_of(request_of(problem), DeviceInfo{});
    plans.resize(2);
    return plans;
  }
  const PackedProblem few_{.m = 16, .n = 256, .k = 256, .weights = {.group = 64}};
};

TEST_F(TuneGpuPacked, kernels_are_timed_cold_and_the_tokens_are_given_back) {
  GpuTuneMachine machine(*lab_);
  Alive first;
  PackedProblem many = few_;
  many.m = 300;
  for (const PackedProblem& problem : {few_, many, few_}) {
    ASSERT_TRUE(machine.open(problem));
    EXPECT_GT(machine.copies(), 1);
    const std::vector<Result<int>> kernels = machine.prepare(plans_of(problem));
    ASSERT_TRUE(kernels.at(0) && kernels.at(1)) << kernels[0].error().message;
    EXPECT_EQ(*kernels[1], 1) << "those of the problem before are gone";
    for (const Effort effort : {Effort::screen, Effort::careful}) {
      const Result<double> us = machine.time(*kernels[1], effort);
      ASSERT_TRUE(us) << us.error().message;
      EXPECT_GT(*us, 0);
    }
    if (problem == few_ && first.allocations == 0) first = driver_.alive();
  }
  Alive again = driver_.alive();
  again.modules = first.modules;
  EXPECT_EQ(again, first) << "weights are made once, tokens freed";
  ASSERT_TRUE(machine.open(problem_)) << "a dense problem after packed ones";
  EXPECT_TRUE(machine.prepare(std::vector<Plan>{*gemm::plan(problem_, DeviceInfo{})})[0]);
}

TEST_F(TuneGpuPacked, a_kernel_that_writes_nothing_is_wrong) {
  GpuTuneMachine machine(*lab_);
  for (const i64 m : {i64{1}, i64{16}, i64{300}}) {
    PackedProblem problem = few_;
    problem.m = m;
    ASSERT_TRUE(machine.open(problem));
    const Result<std::string> checked = machine.check(*machine.prepare(plans_of(problem))[0]);
    ASSERT_TRUE(checked) << checked.error().message;
    // The number of outputs of small_problem().
    const std::string all = std::to_string(std::min<i64>(m, 64) * problem.n);
    EXPECT_NE(checked->find(all + " elements checked, " + all + " wrong"), std::string::npos) << *checked;
  }
}

/// The test computes the kernel's result itself. The right result passes, and each kind of fault is found.
TEST_F(TuneGpuPacked, what_is_right_passes_and_a_tile_taken_for_another_does_not) {
  PackedOperands operands(*lab_);
  PackedProblem problem = few_;
  problem.m = 600;
  problem.bias = Bias::column;
  problem.ld_d = 264;
  ASSERT_TRUE(operands.open(problem));
  const packed::HostData host = *packed::random_data(
      PackedProblem{.m = kDistinctTokens, .n = 256, .k = 256, .weights = {.group = 64}, .bias = Bias::column},
      packed::DataKind::real, lab_->method.seed);
  // The fake driver's reference kernel computes nothing, so sums are 0 and D is the bias.
  const gemm::Args args = operands.args(0);
  const auto row = [&](i64 token) { return static_cast<u16*>(args.d) + token * 264; };
  const auto write = [&](i64 token) { std::memcpy(row(token), host.bias.data(), host.bias.size()); };
  const auto verdict = [&](const std::function<void()>& work) {
    const Contender contender{.name = "by hand", .launch = [&](int, Stream) {
                                for (i64 token = 0; token < 600; ++token) write(token);
                                work();
                                return Result<void>{};
                              }};
    return *verdict_on(operands.check(contender, plans_of(problem)[0]), false);
  };
  EXPECT_EQ(verdict([] {}), "");
  EXPECT_NE(verdict([&] { row(599)[255] ^= 0x100; }), "") << "the last element";
  EXPECT_NE(verdict([&] { std::memset(row(0), 0xFF, 2); }), "") << "one that was never written";
  EXPECT_NE(verdict([&] { row(599)[256] = 0; }), "") << "past the end";
  EXPECT_EQ(std::memcmp(args.a, static_cast<const u16*>(args.a) + kDistinctTokens * 256, 512), 0)
      << "tokens come again";
  EXPECT_NE(std::memcmp(args.a, static_cast<const u16*>(args.a) + 256 * 256, 512), 0)
      << "but not at the distance of tiles";
}

TEST_F(TuneGpuPacked, tokens_that_come_again_bring_their_scales) {
  PackedOperands operands(*lab_);
  PackedProblem problem = few_;
  problem.m = 300;
  problem.x = DType::e4m3;
  problem.weights.order = FragmentOrder::byte;
  for (const ScaleMode mode : {ScaleMode::none, ScaleMode::tensor, ScaleMode::vector}) {
    problem.scale_x = mode;
    ASSERT_TRUE(operands.open(problem));
    const float* scales = operands.args(0).scale_a;
    ASSERT_EQ(scales == nullptr, mode == ScaleMode::none);
    if (mode != ScaleMode::vector) continue;
    for (i64 token = kDistinctTokens; token < problem.m; ++token)
      EXPECT_EQ(scales[token], scales[token - kDistinctTokens]);
    EXPECT_NE(scales[0], scales[256]);
    const Contender nothing{.name = "nothing", .launch = [](int, Stream) { return Result<void>(); }};
    const Result<std::string> checked = verdict_on(operands.check(nothing, plans_of(problem)[0]), false);
    ASSERT_TRUE(checked) << checked.error().message;
    EXPECT_NE(checked->find("of them never written"), std::string::npos) << *checked;
  }
}

TEST_F(TuneGpuPacked, any_single_failing_call_is_survived) {
  const auto search_packed = [&] {
    GpuTuneMachine machine(*lab_);
    return tune(machine, lab_->device.info(), std::vector<Problem>{few_, problem_}, {.top = 2},
                {.known = nullptr, .phase = kSilent, .finished = nullptr});
  };
  search_packed();
  driver_.fail_nothing();
  search_packed();
  const int calls = driver_.calls();
  for (int index = 0; index < calls; index += 1 + calls / 60) {
    driver_.fail_call(index, CUDA_ERROR_UNKNOWN);
    for (const TuneResult& result : search_packed().results) EXPECT_NE(result.state, TuneState::tuned);
  }
}

TEST(tune_tokens, that_are_looked_at_are_spread_from_first_to_last) {
  EXPECT_EQ(checked_tokens(5, 100, kCheckedElements), (std::vector<i64>{0, 1, 2, 3, 4}));
  for (const i64 m : {40, 128, 4096}) {
    const std::vector<i64> tokens = checked_tokens(m, 4096, kCheckedElements);
    EXPECT_EQ(tokens.size(), 8u);
    EXPECT_EQ(tokens.front(), 0);
    EXPECT_EQ(tokens.back(), m - 1);
    EXPECT_TRUE(std::is_sorted(tokens.begin(), tokens.end()));
  }
  EXPECT_EQ(checked_tokens(4096, 1 << 20, kCheckedElements).size(), static_cast<size_t>(kLeastTokens));
}

}  // namespace
}  // namespace sluice::bench
