// SPDX-License-Identifier: Apache-2.0
// The tuner's machine: a GPU through bench's Lab. Kernels are verified by the lab's verifier and timed as
// replays of captured graphs on cold operands, as every figure of sluice is.
#pragma once

#include <deque>

#include "bench/measure.h"
#include "bench/tune.h"

namespace sluice::bench {

class GpuTuneMachine final : public TuneMachine {
 public:
  /// `lab` outlives it.
  explicit GpuTuneMachine(const Lab& lab) : lab_(lab) {}

  double now_s() override;
  Result<void> open(const Problem& problem) override;
  int width() override;
  std::vector<Result<int>> prepare(std::span<const Plan> plans) override;
  Result<std::string> check(int kernel) override;
  Result<double> time(int kernel, Effort effort) override;
  Result<void> alive() override;

  /// Clocks and power since the last open.
  TelemetrySummary telemetry() const { return summarise(samples_); }
  int copies() const { return static_cast<int>(copies_.size()); }

 private:
  struct Entry {
    Contender contender;
    std::optional<Replay> screen, careful;  // captured when first timed
  };
  Result<const Replay*> replay_of(Entry& entry, Effort effort);

  const Lab& lab_;
  std::vector<ProblemData> copies_;
  std::deque<Entry> entries_;
  std::vector<Sample> samples_;
};

}  // namespace sluice::bench
