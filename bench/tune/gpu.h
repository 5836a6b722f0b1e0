// SPDX-License-Identifier: Apache-2.0
// The tuner's operations on a GPU, by means of the bench's Lab. Each kernel is verified on the operands on
// which it is timed. Times are of replays of a captured graph, with operands that are not in L2.
#pragma once

#include <deque>

#include "bench/measure.h"
#include "bench/operands/store.h"
#include "bench/tune/machine.h"

namespace sluice::bench {

class GpuTuneMachine final : public TuneMachine {
 public:
  /// `lab` must outlive this.
  explicit GpuTuneMachine(const Lab& lab) : lab_(lab), store_(lab, kCheckedElements) {}

  double now_s() override;
  Result<void> open(const Problem& problem) override;
  int width() override;
  std::vector<Result<int>> prepare(std::span<const Plan> plans) override;
  Result<std::string> check(int kernel) override;
  /// Runs the kernel and returns the comparison that check() bases its answer on.
  Result<Comparison> compare(int kernel);
  Result<double> time(int kernel, Effort effort) override;
  Result<void> alive() override;

  /// Clocks and power since the last open().
  TelemetrySummary telemetry() const { return summarise(samples_); }
  int copies() const { return open_ != nullptr ? open_->copies() : 0; }

 private:
  struct Entry {
    Plan plan;
    Contender contender;
    std::optional<Replay> screen = {}, careful = {};  // captured at the first timing
  };
  Result<const Replay*> replay_of(Entry& entry, Effort effort);

  const Lab& lab_;
  OperandStore store_;
  Operands* open_ = nullptr;  // operands of the open problem, owned by store_
  std::deque<Entry> entries_;
  std::vector<Sample> samples_;
};

}  // namespace sluice::bench
