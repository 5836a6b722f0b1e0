// SPDX-License-Identifier: Apache-2.0
// The tuner's machine: a GPU through bench's Lab. Kernels are verified on the operands they are timed on, as
// replays of captured graphs on cold operands, as every figure of sluice is.
#pragma once

#include <deque>

#include "bench/contender/packed_operands.h"
#include "bench/measure.h"
#include "bench/tune/tune.h"

namespace sluice::bench {

class DenseOperands final : public TuneOperands {
 public:
  explicit DenseOperands(const Lab& lab) : lab_(lab) {}

  Result<void> open(const Problem& problem);
  void close() { copies_.clear(); }

  int copies() const override { return static_cast<int>(copies_.size()); }
  std::vector<Result<Contender>> prepare(std::span<const AnyPlan> plans) override;
  /// Whole numbers too (verify of sluice_contender.h).
  Result<Comparison> check(const Contender& contender, const AnyPlan& plan) override;
  Result<Comparison> check_exact(const AnyPlan&) override { return Comparison{}; }

 private:
  const Lab& lab_;
  std::vector<ProblemData> copies_;
};

class GpuTuneMachine final : public TuneMachine {
 public:
  /// `lab` outlives it.
  explicit GpuTuneMachine(const Lab& lab) : lab_(lab), dense_(lab), packed_(lab) {}

  double now_s() override;
  Result<void> open(const AnyProblem& problem) override;
  int width() override;
  std::vector<Result<int>> prepare(std::span<const AnyPlan> plans) override;
  Result<std::string> check(int kernel) override;
  /// What check() says is a verdict on.
  Result<Comparison> compare(int kernel);
  Result<double> time(int kernel, Effort effort) override;
  Result<void> alive() override;

  /// Clocks and power since the last open.
  TelemetrySummary telemetry() const { return summarise(samples_); }
  int copies() const { return open_->copies(); }

 private:
  struct Entry {
    AnyPlan plan;
    Contender contender;
    std::optional<Replay> screen = {}, careful = {};  // captured when first timed
  };
  Result<const Replay*> replay_of(Entry& entry, Effort effort);

  const Lab& lab_;
  DenseOperands dense_;
  PackedOperands packed_;
  TuneOperands* open_ = &dense_;  // those of the problem
  std::deque<Entry> entries_;
  std::vector<Sample> samples_;
};

}  // namespace sluice::bench
