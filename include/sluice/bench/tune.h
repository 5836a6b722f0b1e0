// SPDX-License-Identifier: Apache-2.0
// The tuner's search. For each problem, dense or packed, the cost model ranks plans. The best of them are
// timed in rounds; each round drops half, until few are left, and these are timed carefully. All problems get
// equal shares of the time budget. Called by `sluice tune`.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/bench/session.h>
#include <sluice/record_file.h>

namespace sluice::bench {

struct TuneSettings {
  double budget_s = 60;  // seconds for the whole run
  int top = 24;          // candidates of the cost model to try per problem
  int finalists = 3;     // trials timed carefully, in addition to the model's pick and the recorded plan
  int careful_rounds = 9;
  bool every = false;  // dense only: try every possible plan and ignore `top`
  bool again = false;  // see tune()
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
  int kernel = -1;               // the search's own number of the kernel
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
  int copies = 0;  // number of operand sets
  TelemetrySummary telemetry{};

  int count(TrialState state) const;
  double pick_us() const;  // carefully measured time of the model's pick; 0 if it failed
  double best_us() const;
  // Carefully measured time of the recorded plan; 0 if it failed or there is none.
  double recorded_us() const;
  /// pick_us() / best_us(); 1 if either is 0.
  double gain() const;
};

struct TuneRun {
  std::vector<TuneResult> results;  // one per problem, in the same order
  // Set if the run ended early: the GPU was lost or `finished` returned an Error; remaining problems have
  // no_time.
  std::optional<Error> ended;
};

struct TuneHooks {
  Phase phase;  // receives the name of each phase as it begins
  // Called after each problem, when its record is stored; an Error ends the run.
  std::function<Result<void>(const TuneResult&)> finished;
};
/// Tunes the problems in order and stores a record after each. The plan of the record that would be replaced,
/// or that the planner uses now, is always timed too, so that a new record is never slower. No problem is
/// started after the budget is used up. A started one gets at least kLeastTrials candidates and kLeastRounds
/// rounds. `again`: tune also problems with a record that this version of sluice made under this driver.
TuneRun tune(const Lab& lab, RecordFile& records, std::span<const Problem> problems,
             const TuneSettings& settings, const TuneHooks& hooks);

inline constexpr int kLeastTrials = 4;
inline constexpr int kLeastRounds = 3;
/// Relative difference below which a summary counts times as equal. The faster plan is still the one
/// recorded.
inline constexpr double kTuneNoise = 0.007;

/// Returns for example "cold, 9 rounds of 3.0 ms, 20 ms rest".
std::string method_text(const Method& method);

/// The shape as `sluice bench --tune` writes it. Its contenders are the pick and the best, its candidates all
/// trials that were tried.
ShapeRecord shape_record_of(const TuneResult& result);

struct TuneSummary {
  int tuned = 0, known = 0, no_time = 0, failed = 0;
  int wrong_kernels = 0, failed_kernels = 0;
  int within_noise = 0;  // tuned problems where the model's pick is as fast as the best plan, within noise
  double mean_gain = 1;  // geometric mean over problems of pick time over best time
  double worst_gain = 1;
  std::string worst;            // name of the problem with the largest gain
  int recorded = 0;             // tuned problems whose previous record's plan was timed
  double mean_record_gain = 1;  // geometric mean over problems of the recorded plan's time over the best time
};
TuneSummary summarise(const std::vector<TuneResult>& results);

}  // namespace sluice::bench
