// SPDX-License-Identifier: Apache-2.0
// The tuner's search. For each problem, dense or packed, the model ranks plans. The machine times the best of
// them in rounds, halving their number until few are left, and times these carefully. All problems get equal
// shares of the time budget. All hardware access is in TuneMachine, so tests can provide clock and timings
// (tests/unit/tune_search_test.cc); tune/gpu.h implements it for a GPU. Called by `sluice tune`.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/product.h"
#include "bench/session.h"

namespace sluice::bench {

/// screen: one short replay, good to about 2 %. careful: one round of the bench's own method.
enum class Effort { screen, careful };

/// The machine that a search runs on. A kernel is the number that prepare gave it, valid until the next open.
class TuneMachine {
 public:
  virtual ~TuneMachine() = default;

  virtual double now_s() = 0;  // never goes back
  /// Makes the operands of a problem; the previous kernels and operands are gone.
  virtual Result<void> open(const AnyProblem& problem) = 0;
  /// The number of kernels compiled at once.
  virtual int width() = 0;
  /// Compiles and loads; answer i belongs to plan i.
  virtual std::vector<Result<int>> prepare(std::span<const AnyPlan> plans) = 0;
  /// Runs the kernel once and checks D: "" if right, else the fault. An Error: it did not run or could not be
  /// checked.
  virtual Result<std::string> check(int kernel) = 0;
  /// Microseconds of one launch.
  virtual Result<double> time(int kernel, Effort effort) = 0;
  /// Error: the machine is lost, and nothing more can be measured by this process.
  virtual Result<void> alive() = 0;
};

struct TuneSettings {
  double budget_s = 60;  // for the whole run
  int top = 24;          // candidates of the model for each problem
  int finalists = 3;     // timed with care, beside the model's pick and the record's plan
  int careful_rounds = 9;
  bool every = false;  // dense: each plan that is possible (every_plan.h), of which `top` counts none
};

enum class TrialState {
  untried,  // no time was left
  right,
  wrong,   // ran, but D is wrong
  failed,  // did not compile, load or run
};

/// One candidate and its outcome. `best` and `recorded` of TuneResult index these.
struct Trial {
  AnyPlan plan;
  TrialState state = TrialState::untried;
  std::string message;           // if wrong or failed
  int kernel = -1;               // the machine's number
  std::vector<double> screened;  // microseconds, one per round
  std::vector<double> timed;

  bool in_race() const { return state == TrialState::right; }
};

enum class TuneState {
  tuned,
  known,    // has a record already
  no_time,  // the budget was used up before
  failed,   // cannot be planned, or nothing ran right
};

struct TuneResult {
  AnyProblem problem;
  TuneState state = TuneState::failed;
  std::string message;  // if failed
  /// The model's pick, then the record's plan, then by rank, then other rasters of the leaders.
  std::vector<Trial> trials;
  int best = -1;      // -1: none
  int recorded = -1;  // the trial of the record's plan; -1: there is none
  int ranked = 0;     // candidates of the model, tried or not
  int possible = 0;   // with TuneSettings::every: all plans; else 0
  double seconds = 0;

  int count(TrialState state) const;
  double pick_us() const;  // careful time of the model's pick; 0 if it failed
  double best_us() const;
  double recorded_us() const;  // careful time of the record's plan; 0 if there is none or it failed
  /// pick_us / best_us; 1 if either is missing.
  double gain() const;
};

/// The caller's side of the search.
struct TuneHooks {
  std::function<bool(const AnyProblem&)> known;  // skips problems that have a record
  /// The plan of the present record, so that a new record is never worse. Null: no records.
  std::function<std::optional<AnyPlan>(const AnyProblem&)> recorded;
  Phase phase;                                              // receives the name of each phase
  std::function<Result<void>(const TuneResult&)> finished;  // an Error ends the run
};

struct TuneRun {
  std::vector<TuneResult> results;  // one per problem, in their order
  std::optional<Error> ended;       // a lost machine, or an Error of `finished`; the rest is no_time
};

/// Tunes each problem in order. None starts after the budget is used up; one that has started gets at least
/// kLeastTrials candidates and kLeastRounds rounds.
TuneRun tune(TuneMachine& machine, const DeviceInfo& device, std::span<const AnyProblem> problems,
             const TuneSettings& settings, const TuneHooks& hooks);

inline constexpr int kLeastTrials = 4;
inline constexpr int kLeastRounds = 3;
/// Times closer than this count as equal in a summary; the faster one is still kept.
inline constexpr double kTuneNoise = 0.007;

}  // namespace sluice::bench
