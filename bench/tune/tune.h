// SPDX-License-Identifier: Apache-2.0
// The tuner's search: for each problem, dense or of packed weights, the model ranks, the machine measures its
// best in turn, halving the field until a few are left, and those are timed with care. All of it within a
// budget of time that is shared evenly. Pure but for the TuneMachine, so that search and budget are tested
// with a clock and timings made up (tests/unit/tune_search_test.cc); the GPU's machine is tune/gpu.h. Called
// by `sluice tune`.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/product.h"
#include "bench/session.h"

namespace sluice::bench {

/// screen: one short replay, good to about 2 %. careful: the bench's own method, one round of it.
enum class Effort { screen, careful };

/// What the search needs from a machine. A kernel is the number that prepare gave it, until the next open.
class TuneMachine {
 public:
  virtual ~TuneMachine() = default;

  virtual double now_s() = 0;  // of a clock that never goes back
  /// Makes the operands of a problem; kernels and operands of the one before are gone.
  virtual Result<void> open(const AnyProblem& problem) = 0;
  /// Kernels that are compiled at once.
  virtual int width() = 0;
  /// Compiles and loads; the i-th answer belongs to the i-th plan.
  virtual std::vector<Result<int>> prepare(std::span<const AnyPlan> plans) = 0;
  /// Runs the kernel once and looks at the result: "" if it is right, else what is wrong. An Error: it did
  /// not run, or could not be looked at.
  virtual Result<std::string> check(int kernel) = 0;
  /// Microseconds of one launch.
  virtual Result<double> time(int kernel, Effort effort) = 0;
  /// Error: the machine is lost, and nothing more can be measured by this process.
  virtual Result<void> alive() = 0;
};

struct TuneSettings {
  double budget_s = 60;  // of the whole run
  int top = 24;          // of the model's candidates, for each problem
  int finalists = 3;     // timed with care, beside the model's pick and the record's
  int careful_rounds = 9;
};

enum class TrialState {
  untried,  // there was no time
  right,
  wrong,   // ran, and the result is not the product
  failed,  // did not compile, load or run
};

/// One candidate and what became of it. `best` and `recorded` of a TuneResult are indices of these.
struct Trial {
  AnyPlan plan;
  TrialState state = TrialState::untried;
  std::string message;           // if wrong or failed
  int kernel = -1;               // the machine's number
  std::vector<double> screened;  // microseconds, one a round
  std::vector<double> timed;

  bool in_race() const { return state == TrialState::right; }
};

enum class TuneState {
  tuned,
  known,    // has a record already
  no_time,  // the budget was used up before its turn
  failed,   // cannot be planned, or nothing ran right
};

struct TuneResult {
  AnyProblem problem;
  TuneState state = TuneState::failed;
  std::string message;  // if failed
  /// The model's pick first, then what a record said until now, then as ranked, then other walks of the
  /// leaders.
  std::vector<Trial> trials;
  int best = -1;      // -1: none
  int recorded = -1;  // the trial that a record named; -1: there was none
  double seconds = 0;

  int count(TrialState state) const;
  double pick_us() const;  // careful time of the model's pick; 0 if it failed
  double best_us() const;
  double recorded_us() const;  // careful time of what the record said; 0 if there was none or it failed
  /// pick_us / best_us; 1 if either is missing.
  double gain() const;
};

/// What the caller of the search is asked and told.
struct TuneHooks {
  std::function<bool(const AnyProblem&)> known;  // leave it out?
  /// What a record makes of it until now, so that a new record is never worse. Null: no records.
  std::function<std::optional<AnyPlan>(const AnyProblem&)> recorded;
  Phase phase;                                              // what is being done
  std::function<Result<void>(const TuneResult&)> finished;  // an Error ends the run
};

struct TuneRun {
  std::vector<TuneResult> results;  // one a problem, in their order
  std::optional<Error> ended;       // a lost machine, or what `finished` said: the rest is no_time
};

/// Every problem in its order. Never starts one after the budget is used up; one that was started gets at
/// least kLeastTrials candidates and kLeastRounds rounds.
TuneRun tune(TuneMachine& machine, const DeviceInfo& device, std::span<const AnyProblem> problems,
             const TuneSettings& settings, const TuneHooks& hooks);

inline constexpr int kLeastTrials = 4;
inline constexpr int kLeastRounds = 3;
/// Times closer than this count as equal in a summary; the faster one is kept all the same.
inline constexpr double kTuneNoise = 0.007;

}  // namespace sluice::bench
