// SPDX-License-Identifier: Apache-2.0
// The tuner's search. For each problem, dense or packed, the cost model ranks plans. The best of them are
// timed in rounds; each round drops half, until few are left, and these are timed carefully. All problems get
// equal shares of the time budget. All access to hardware is in TuneMachine, so tests can provide the clock
// and the times (tests/unit/tune_search_test.cc). tune/gpu.h implements it for a GPU. Called by `sluice
// tune`.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/product.h"
#include "bench/session.h"

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

struct TuneSettings {
  double budget_s = 60;  // seconds for the whole run
  int top = 24;          // candidates of the cost model to try per problem
  int finalists = 3;     // trials timed carefully, in addition to the model's pick and the recorded plan
  int careful_rounds = 9;
  bool every = false;  // dense only: try every possible plan (every_plan.h) and ignore `top`
};

enum class TrialState {
  untried,  // the time ran out first
  right,
  wrong,   // ran, but D is wrong
  failed,  // did not compile, load or run
};

/// One candidate and its outcome. `best` and `recorded` of TuneResult index these.
struct Trial {
  Plan plan;
  TrialState state = TrialState::untried;
  std::string message;           // set if wrong or failed
  int kernel = -1;               // the number that TuneMachine::prepare returned
  std::vector<double> screened;  // microseconds by screening round
  std::vector<double> timed;

  bool in_race() const { return state == TrialState::right; }
};

enum class TuneState {
  tuned,
  known,    // already has a record, so it was not tuned
  no_time,  // not started, because the budget was used up
  failed,   // could not be planned, or no trial was right
};

struct TuneResult {
  Problem problem;
  TuneState state = TuneState::failed;
  std::string message;  // set if failed
  /// The model's pick, the recorded plan, then candidates by rank, then other rasters of the leaders.
  std::vector<Trial> trials;
  int best = -1;      // index of the fastest trial; -1: none
  int recorded = -1;  // index of the recorded plan's trial; -1: no record
  int ranked = 0;     // number of the cost model's candidates, tried or not
  int possible = 0;   // number of possible plans with TuneSettings::every; else 0
  double seconds = 0;

  int count(TrialState state) const;
  double pick_us() const;  // carefully measured time of the model's pick; 0 if it failed
  double best_us() const;
  // Carefully measured time of the recorded plan; 0 if it failed or there is none.
  double recorded_us() const;
  /// pick_us() / best_us(); 1 if either is 0.
  double gain() const;
};

/// Callbacks of the search.
struct TuneHooks {
  std::function<bool(const Problem&)> known;  // true: the problem has a record, so skip it
  /// Returns the plan of the current record, which is always timed, so that a new record is never slower.
  /// Null: there are no records.
  std::function<std::optional<Plan>(const Problem&)> recorded;
  Phase phase;  // receives the name of each phase as it begins
  // Called after each problem; an Error ends the run.
  std::function<Result<void>(const TuneResult&)> finished;
};

struct TuneRun {
  std::vector<TuneResult> results;  // one per problem, in the same order
  // Set if the run ended early: the GPU was lost or `finished` returned an Error; remaining problems have
  // no_time.
  std::optional<Error> ended;
};

/// Tunes the problems in order. No problem is started after the budget is used up. A started one gets at
/// least kLeastTrials candidates and kLeastRounds rounds.
TuneRun tune(TuneMachine& machine, const DeviceInfo& device, std::span<const Problem> problems,
             const TuneSettings& settings, const TuneHooks& hooks);

inline constexpr int kLeastTrials = 4;
inline constexpr int kLeastRounds = 3;
/// Relative difference below which a summary counts times as equal. The faster plan is still the one
/// recorded.
inline constexpr double kTuneNoise = 0.007;

}  // namespace sluice::bench
