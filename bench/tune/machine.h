// SPDX-License-Identifier: Apache-2.0
// The tuner's search without hardware: all access to it is in TuneMachine, so tests can provide the clock and
// the times (tests/unit/tune_search_test.cc). tune/gpu.h implements it for a GPU.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/bench/tune.h>

namespace sluice::bench {

/// How carefully to time. screen: one short replay, repeatable to about 2 %. careful: one round of the
/// bench's own method.
enum class Effort { screen, careful };

/// Operations on the GPU that a search needs; tests replace them. Kernels are identified by the number that
/// prepare() returned, valid until the next open().
class TuneMachine {
 public:
  virtual ~TuneMachine() = default;

  virtual double now_s() = 0;  // monotonic clock in seconds
  /// Makes the operands of a problem and frees the previous kernels and operands.
  virtual Result<void> open(const Problem& problem) = 0;
  /// Number of kernels that are compiled at once.
  virtual int width() = 0;
  /// Compiles and loads the plans' kernels; result i is the number of plan i's kernel.
  virtual std::vector<Result<int>> prepare(std::span<const Plan> plans) = 0;
  /// Runs the kernel once and checks D: returns "" if right, else what is wrong. Error: the kernel did not
  /// run or could not be checked.
  virtual Result<std::string> check(int kernel) = 0;
  /// Returns the microseconds of one launch.
  virtual Result<double> time(int kernel, Effort effort) = 0;
  /// Checks the GPU. Error: it is lost, and this process can measure nothing more.
  virtual Result<void> alive() = 0;
};

/// Callbacks of the search.
struct SearchHooks {
  std::function<bool(const Problem&)> known;  // true: the problem has a record, so skip it
  /// Returns the plan of the current record, which is always timed, so that a new record is never slower.
  /// Null: there are no records.
  std::function<std::optional<Plan>(const Problem&)> recorded;
  Phase phase;  // receives the name of each phase as it begins
  // Called after each problem; an Error ends the run.
  std::function<Result<void>(TuneResult&)> finished;
};

/// The search of tune(), for `device`; stores nothing.
TuneRun tune(TuneMachine& machine, const DeviceInfo& device, std::span<const Problem> problems,
             const TuneSettings& settings, const SearchHooks& hooks);

}  // namespace sluice::bench
