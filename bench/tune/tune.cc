// SPDX-License-Identifier: Apache-2.0
// Division of a problem's time: preparing takes up to half, screening ends at four fifths, and careful timing
// gets the rest. If time is short, the candidates with the worst rank are dropped. Lists are in order of
// rank, except that the recorded plan is second.
#include <algorithm>

#include <sluice/try.h>

#include "bench/tune/every_plan.h"
#include "bench/tune/machine.h"
#include "bench/tune/walks.h"

namespace sluice::bench {
namespace {

constexpr double kPrepareShare = 0.5, kScreenShare = 0.8;
// Screening rounds before half of the candidates are dropped for the first time.
constexpr int kFullRounds = 2;
constexpr int kEveryRounds = 5;  // rounds before that, where the time of every plan is kept as data
constexpr int kLeaders = 3;      // fastest trials for which other rasters are tried

/// The search for one problem: plan, prepare, screen, try other rasters, finish.
class Search {
 public:
  Search(TuneMachine& machine, const DeviceInfo& device, const TuneSettings& settings,
         const SearchHooks& hooks)
      : machine_(machine), device_(device), settings_(settings), hooks_(hooks) {}

  TuneResult run(const Problem& problem, double share_s) {
    result_.problem = problem;
    const double begin_s = machine_.now_s();
    share_s_ = share_s;
    if (Result<void> done = measure(); !done) {
      result_.state = TuneState::failed;
      result_.message = done.error().message;
    }
    result_.seconds = machine_.now_s() - begin_s;
    return std::move(result_);
  }

 private:
  Result<void> measure() {
    SLUICE_TRY(plan());
    hooks_.phase("filling operands");
    SLUICE_TRY(machine_.open(result_.problem));
    // Started after open(), so that making new weights does not use up the candidates' time.
    start_s_ = machine_.now_s();
    prepare(0, kPrepareShare);
    screen(racers());
    add_walks();
    finish();
    if (result_.best >= 0) {
      result_.state = TuneState::tuned;
      return {};
    }
    for (const Trial& trial : result_.trials)
      if (!trial.message.empty()) return Error{ErrorCode::driver, trial.message};
    return Error{ErrorCode::internal, "no candidate could be timed"};
  }

  Result<void> plan() {
    SLUICE_TAKE(std::vector<Plan> plans, candidates_of(request_of(result_.problem), device_));
    result_.problem = plans.front().problem;
    result_.ranked = static_cast<int>(plans.size());
    if (settings_.every && !is_packed(result_.problem)) {
      SLUICE_TAKE(plans, every_plan({.problem = result_.problem}, device_));
      result_.possible = static_cast<int>(plans.size());
    }
    const size_t top = result_.possible > 0 ? plans.size() : static_cast<size_t>(std::max(settings_.top, 1));
    if (plans.size() > top) plans.resize(top);
    for (Plan& candidate : plans) result_.trials.push_back({.plan = std::move(candidate)});
    add_recorded();
    return {};
  }

  /// Inserts the recorded plan second, so that running out of time cannot exclude it.
  void add_recorded() {
    std::optional<Plan> recorded = hooks_.recorded ? hooks_.recorded(result_.problem) : std::nullopt;
    if (!recorded) return;
    if (is_same(result_.trials.front().plan, *recorded)) {
      result_.recorded = 0;
      return;
    }
    std::erase_if(result_.trials, [&](const Trial& trial) { return is_same(trial.plan, *recorded); });
    result_.trials.insert(result_.trials.begin() + 1, {.plan = *std::move(recorded)});
    result_.recorded = 1;
  }

  bool used(double share) const { return machine_.now_s() - start_s_ >= share * share_s_; }

  /// Compiles and checks the trials from index `first` on, as many at a time as the machine compiles at once.
  void prepare(size_t first, double share) {
    const size_t width = static_cast<size_t>(std::max(machine_.width(), kLeastTrials));
    for (size_t begin = first; begin < result_.trials.size(); begin += width) {
      if (begin >= kLeastTrials && used(share)) return;
      const size_t end = std::min(begin + width, result_.trials.size());
      hooks_.phase("compiling " + std::to_string(end - begin));
      compile(begin, end);
      for (size_t i = begin; i < end; ++i) {
        if (i >= kLeastTrials && used(share)) return;
        check(result_.trials[i]);
      }
    }
  }

  void compile(size_t begin, size_t end) {
    std::vector<Plan> plans;
    for (size_t i = begin; i < end; ++i) plans.push_back(result_.trials[i].plan);
    const std::vector<Result<int>> kernels = machine_.prepare(plans);
    for (size_t i = begin; i < end; ++i) {
      const Result<int>& kernel = kernels[i - begin];
      if (kernel)
        result_.trials[i].kernel = *kernel;
      else
        fail(result_.trials[i], kernel.error().message);
    }
  }

  void check(Trial& trial) {
    if (trial.kernel < 0) return;
    hooks_.phase("verifying " + short_name(trial.plan.config));
    const Result<std::string> wrong = machine_.check(trial.kernel);
    if (!wrong) return fail(trial, wrong.error().message);
    trial.state = wrong->empty() ? TrialState::right : TrialState::wrong;
    trial.message = *wrong;
  }

  static void fail(Trial& trial, const std::string& message) {
    trial.state = TrialState::failed;
    trial.message = message;
  }

  std::vector<Trial*> racers() {
    std::vector<Trial*> all;
    for (Trial& trial : result_.trials)
      if (trial.in_race()) all.push_back(&trial);
    return all;
  }

  /// Times one replay of each trial. Each round starts with another trial. A failed trial is dropped.
  void time_round(std::vector<Trial*>& field, Effort effort, int round) {
    const size_t count = field.size();
    for (size_t turn = 0; turn < count; ++turn) {
      Trial& trial = *field[(turn + static_cast<size_t>(round)) % count];
      const Result<double> us = machine_.time(trial.kernel, effort);
      if (!us || *us <= 0)
        fail(trial, us ? "no time between two events" : us.error().message);
      else
        (effort == Effort::screen ? trial.screened : trial.timed).push_back(*us);
    }
    std::erase_if(field, [](const Trial* trial) { return !trial->in_race(); });
  }

  /// Screens in rounds and halves the field by the median of all rounds, until only finalists are left.
  void screen(std::vector<Trial*> field) {
    hooks_.phase("screening " + std::to_string(field.size()));
    for (int round = 0; !field.empty(); ++round) {
      if (round > 0 && used(kScreenShare)) return;
      time_round(field, Effort::screen, round);
      if (round + 1 < (settings_.every ? kEveryRounds : kFullRounds)) continue;
      if (field.size() <= static_cast<size_t>(settings_.finalists)) return;
      sort_by_screening(field);
      field.resize(std::max((field.size() + 1) / 2, static_cast<size_t>(settings_.finalists)));
    }
  }

  static void sort_by_screening(std::vector<Trial*>& field) {
    std::stable_sort(field.begin(), field.end(), [](const Trial* x, const Trial* y) {
      return quantile(x->screened, 0.5) < quantile(y->screened, 0.5);
    });
  }

  /// Returns all screened trials, fastest first.
  std::vector<Trial*> ranking() {
    std::vector<Trial*> all = racers();
    std::erase_if(all, [](const Trial* trial) { return trial->screened.empty(); });
    sort_by_screening(all);
    return all;
  }

  /// True if this plan already is a trial. Leaders that differ only in raster have the same alternatives.
  bool is_a_trial(const Plan& plan) const {
    return std::any_of(result_.trials.begin(), result_.trials.end(),
                       [&](const Trial& trial) { return is_same(trial.plan, plan); });
  }

  /// Screens variants of the leaders with other rasters and smaller grids. Packed kernels have only one
  /// raster.
  void add_walks() {
    if (is_packed(result_.problem) || used(kScreenShare)) return;
    std::vector<Plan> walks;
    std::vector<size_t> field;
    for (const Trial* leader : ranking()) {
      if (field.size() == kLeaders) break;
      field.push_back(static_cast<size_t>(leader - result_.trials.data()));
      for (Plan& other : other_orders(leader->plan, device_)) walks.push_back(std::move(other));
      for (Plan& other : smaller_grids(leader->plan, device_)) walks.push_back(std::move(other));
    }
    const size_t first = result_.trials.size();
    for (Plan& other : walks)
      if (!is_a_trial(other)) result_.trials.push_back({.plan = std::move(other)});
    prepare(first, kScreenShare);
    std::vector<Trial*> entrants;
    for (const size_t index : field) entrants.push_back(&result_.trials[index]);
    for (size_t i = first; i < result_.trials.size(); ++i)
      if (result_.trials[i].in_race()) entrants.push_back(&result_.trials[i]);
    if (entrants.size() > field.size()) screen(std::move(entrants));
  }

  /// Times the finalists carefully. If all fail, the next trials follow; each pass removes the failed ones.
  void finish() {
    for (std::vector<Trial*> left = ranking(); !left.empty() && result_.best < 0; left = ranking())
      race(left);
  }

  /// Times in turn the first trials of `all`, the model's pick and the recorded plan.
  void race(const std::vector<Trial*>& all) {
    const size_t finalists = static_cast<size_t>(settings_.finalists);
    std::vector<Trial*> field;
    for (Trial* trial : all) {
      const int index = static_cast<int>(trial - result_.trials.data());
      if (field.size() < finalists || index == 0 || index == result_.recorded) field.push_back(trial);
    }
    hooks_.phase("timing " + std::to_string(field.size()) + " in turn");
    for (int round = 0; round < settings_.careful_rounds && !field.empty(); ++round) {
      if (round >= kLeastRounds && used(1)) break;
      time_round(field, Effort::careful, round);
    }
    double least = 0;
    for (const Trial* trial : field) {
      const double us = quantile(trial->timed, 0.5);
      if (result_.best >= 0 && us >= least) continue;
      result_.best = static_cast<int>(trial - result_.trials.data());
      least = us;
    }
  }

  TuneMachine& machine_;
  const DeviceInfo& device_;
  const TuneSettings& settings_;
  const SearchHooks& hooks_;
  TuneResult result_;
  double start_s_ = 0, share_s_ = 0;
};

double careful_us(const std::vector<Trial>& trials, int index) {
  if (index < 0 || index >= static_cast<int>(trials.size())) return 0;
  const Trial& trial = trials[static_cast<size_t>(index)];
  return trial.in_race() ? quantile(trial.timed, 0.5) : 0;
}

}  // namespace

int TuneResult::count(TrialState wanted) const {
  return static_cast<int>(
      std::count_if(trials.begin(), trials.end(), [&](const Trial& trial) { return trial.state == wanted; }));
}

double TuneResult::pick_us() const {
  return careful_us(trials, 0);
}

double TuneResult::best_us() const {
  return careful_us(trials, best);
}

double TuneResult::recorded_us() const {
  return careful_us(trials, recorded);
}

double TuneResult::gain() const {
  return pick_us() > 0 && best_us() > 0 ? pick_us() / best_us() : 1;
}

TuneRun tune(TuneMachine& machine, const DeviceInfo& device, std::span<const Problem> problems,
             const TuneSettings& settings, const SearchHooks& hooks) {
  TuneRun run;
  const double deadline_s = machine.now_s() + settings.budget_s;
  size_t left = 0;  // problems that still share the remaining time
  for (const Problem& problem : problems) {
    const bool known = hooks.known && hooks.known(problem);
    left += known ? 0 : 1;
    run.results.push_back({.problem = problem, .state = known ? TuneState::known : TuneState::no_time});
  }
  for (TuneResult& result : run.results) {
    const double remaining_s = deadline_s - machine.now_s();
    if (result.state == TuneState::no_time && remaining_s > 0 && !run.ended) {
      Search search(machine, device, settings, hooks);
      result = search.run(result.problem, remaining_s / static_cast<double>(left--));
      if (const Result<void> alive = machine.alive(); !alive) run.ended = alive.error();
    }
    if (!hooks.finished) continue;
    if (Result<void> kept = hooks.finished(result); !kept && !run.ended) run.ended = kept.error();
  }
  return run;
}

}  // namespace sluice::bench
