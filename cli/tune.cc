// SPDX-License-Identifier: Apache-2.0
// `sluice tune`: finds the fastest configuration of each problem within a time budget, and stores a tuning
// record after each problem. The search is in bench/tune/tune.h; this file chooses problems, prints and
// stores.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include <sluice/tools.h>
#include <sluice/try.h>

#include "bench/errors.h"
#include "bench/tune/gpu.h"
#include "bench/tune/report.h"
#include "cli/bounded.h"
#include "cli/command_line.h"
#include "cli/measure_flags.h"
#include "cli/requests.h"
#include "cli/target.h"
#include "cli/terminal.h"
#include "cli/tune_table.h"
#include "cli/value_checks.h"
#include "cli/verb.h"
#include "cli/watchdog.h"

namespace sluice::cli {
namespace {

using bench::TuneResult;
using bench::TuneState;

struct TuneFlags {
  RequestFlags requests;
  std::string only, json, commit, records, out;
  std::string device = "0";
  bool again = false;
  int hang_s = 90;
  bench::TuneSettings settings;
  bench::Method method{.peer = false};
};

Error of_problem(const bench::Request& request, const std::string& rule) {
  return bad_argument("{}: {}", bench::name_of(request), rule);
}

Result<std::vector<bench::Request>> listed_problems(const TuneFlags& flags) {
  const RequestFlags& given = flags.requests;
  SLUICE_TRY(refuse_overrides(given, "here: tune chooses the configuration itself; leave it out"));
  if (given.problem.alpha != 1.0f || given.problem.beta)
    return bad_argument("--alpha and --beta have no effect here: a record holds for all; leave them out");
  if (given.set.empty() && given.file.empty() && !is_model(given.model) && !has_shape(given.problem) &&
      !is_conv(given.conv))
    return bad_argument(
        "nothing to tune: name problems with --set, --shapes or --model, or one with --shape or --conv");
  SLUICE_TAKE(std::vector<bench::Request> requests, requests_of(given));
  for (const bench::Request& request : requests) {
    const bench::Scalars usual = scalars_of(bench::request_of(request.problem)), own = scalars_of(request);
    if (own.alpha != usual.alpha || own.beta != usual.beta)
      return of_problem(request, "--alpha and --beta have no effect here: leave them out of the file");
    if (has_overrides(request))
      return of_problem(request,
                        "tune chooses schedule, tile and order itself; leave their flags out of the file");
  }
  return requests;
}

/// Returns the tuning key of a problem; an error if the problem cannot be tuned.
Result<TuningKey> key_of_tunable(const bench::Request& request) {
  const Result<Plan> plan = plan_of(request, DeviceInfo{}, shipped_records());
  if (!plan) return within(bench::name_of(request), plan.error());
  if (bench::has_no_product(plan->problem))
    return of_problem(request, "a product without elements has nothing to tune; leave it out");
  return key_of(plan->problem, DeviceInfo{});
}

/// Problems to tune. convs[i] is the convolution of problem i, if it has one.
struct Work {
  std::vector<Problem> problems;
  std::vector<Conv> convs;

  std::string name(size_t index) const { return bench::name_of(problems[index], convs[index]); }
};

/// Returns the problems in their order, one per recipe, because equal recipes share a record.
Result<Work> work_of(const TuneFlags& flags) {
  SLUICE_TAKE(const std::vector<bench::Request> listed, listed_problems(flags));
  Work work;
  std::set<TuningKey> seen;
  for (const bench::Request& request : listed) {
    if (bench::name_of(request).find(flags.only) == std::string::npos) continue;
    SLUICE_TAKE(TuningKey key, key_of_tunable(request));
    if (!seen.insert(std::move(key)).second) continue;
    work.problems.push_back(request.problem);
    work.convs.push_back(request.conv);
  }
  if (work.problems.empty())
    return bad_argument("no problem of the list has {} in its name: give a part of one",
                        in_quotes(flags.only));
  return work;
}

void print_result(const TuneResult& result, const std::string& name) {
  const std::string line = tune_line(result, name);
  const bool bad = result.state == TuneState::failed || result.count(bench::TrialState::wrong) > 0;
  fmt::print("{}{}", bad ? paint(stdout, Colour::red, line) : line,
             paint(stdout, Colour::dim, tune_troubles(result)));
  std::fflush(stdout);
}

/// Estimates the remaining time for the progress bar. It assumes that each remaining problem takes as long as
/// the finished ones did, up to the budget.
class Clock {
 public:
  Clock(double start_s, double budget_s) : start_s_(start_s), budget_s_(budget_s) {}
  void finished(bool measured) { measured_ += measured; }
  double elapsed_s(double now_s) const { return now_s - start_s_; }
  std::string left(double now_s, int problems_left) const {
    const double elapsed = elapsed_s(now_s), rest = std::max(budget_s_ - elapsed, 0.0);
    const double guess = measured_ > 0 ? std::min(rest, elapsed / measured_ * problems_left) : rest;
    return fmt::format("{:.0f} s left", guess);
  }

 private:
  double start_s_, budget_s_;
  int measured_ = 0;
};

/// A whole run, from the first problem to the summary.
class Session {
 public:
  Session(const TuneFlags& flags, const bench::Lab& lab, RecordStore& store)
      : flags_(flags), lab_(lab), store_(store), machine_(lab), run_(run_record(lab, flags.commit)) {
    run_.tune = flags.settings.every ? 0 : flags.settings.top;
  }

  Result<int> run(const Work& work, const std::string& where) {
    const std::vector<Problem>& problems = work.problems;
    const DeviceInfo& info = lab_.device.info();
    fmt::print("{}, driver {}; {} in {:.0f} s; {}\n\n", info.name, driver(),
               counted(problems.size(), "problem"), flags_.settings.budget_s,
               bench::method_text(lab_.method));
    fmt::print("{}", paint(stdout, Colour::bold, tune_header()));
    const int total = static_cast<int>(problems.size());
    Progress bar("tune");
    Watchdog watchdog(flags_.hang_s);
    Clock clock(machine_.now_s(), flags_.settings.budget_s);
    int done = 0;
    const bench::TuneHooks hooks{
        .known = [&](const Problem& problem) { return is_known(problem); },
        .recorded = [&](const Problem& problem) { return recorded(problem); },
        .phase =
            [&](const std::string& what) {
              const std::string name = work.name(static_cast<size_t>(done));
              watchdog.step(fmt::format("{}: {}", name, what));
              bar.update(done, total,
                         fmt::format("{}, {}: {}", clock.left(machine_.now_s(), total - done), name, what));
            },
        .finished =
            [&](const TuneResult& result) {
              const size_t index = static_cast<size_t>(done++);
              clock.finished(result.state == TuneState::tuned || result.state == TuneState::failed);
              bar.clear();
              print_result(result, work.name(index));
              return keep(result, work.convs[index]);
            }};
    const bench::TuneRun found = bench::tune(machine_, info, problems, flags_.settings, hooks);
    bar.clear();
    fmt::print("\n{}", tune_summary(found.results, where, clock.elapsed_s(machine_.now_s())));
    if (found.ended) return within("the run ended early, what was found until then is stored", *found.ended);
    const bench::TuneSummary s = bench::summarise(found.results);
    return s.wrong_kernels == 0 && s.failed == 0 ? kExitOk : kExitNo;
  }

 private:
  std::string driver() const { return run_.driver.empty() ? "unknown" : run_.driver; }

  /// Returns the plan of the record that would be replaced, else of the record that the planner would use
  /// now.
  std::optional<Plan> recorded(const Problem& problem) const {
    const RecordBook books[] = {book_of(store_.records()), lab_.device.records()};
    return bench::recorded_plan(problem, lab_.device.info(), books);
  }

  /// True if the problem has a record that this version of sluice made under this driver.
  bool is_known(const Problem& problem) const {
    if (flags_.again) return false;
    const TuningRecord* record = store_.find(key_of(problem, lab_.device.info()));
    return record != nullptr && record->sluice == library_version() && record->driver == driver();
  }

  Result<void> keep(const TuneResult& result, const Conv& conv) {
    if (result.state == TuneState::tuned) {
      const TuningRecord record = bench::record_of(result, {.device = lab_.device.info(),
                                                            .driver = driver(),
                                                            .date = utc_now(),
                                                            .method = bench::method_text(lab_.method)});
      SLUICE_TRY(store_.save(record));
    }
    if (flags_.json.empty() || result.state == TuneState::known || result.state == TuneState::no_time)
      return {};
    run_.shapes.push_back(bench::shape_record_of(result));
    if (is_conv(conv)) run_.shapes.back().conv = conv;
    run_.shapes.back().copies = machine_.copies();
    run_.shapes.back().telemetry = machine_.telemetry();
    return bench::write_json(run_, flags_.json);
  }

  const TuneFlags& flags_;
  const bench::Lab& lab_;
  RecordStore& store_;
  bench::GpuTuneMachine machine_;
  bench::RunRecord run_;
};

Result<int> run_tune(const TuneFlags& flags) {
  if (!(flags.settings.budget_s > 0))
    return bad_argument("--budget-s {} must be above 0", flags.settings.budget_s);
  SLUICE_TAKE(const Work work, work_of(flags));
  const Options options = options_from_environment();
  SLUICE_TAKE(RecordStore store, open_store(flags.out, flags.records, options));
  SLUICE_TAKE(const Device device,
              gpu_of(flags.device, options, "tune measures GPUs: without one there are plan and compile"));
  for (const std::string& trouble : store.troubles())
    fmt::print("{}\n", paint(stdout, Colour::yellow, "passed over: " + trouble));
  SLUICE_TAKE(const bench::Lab lab, bench::open_lab(device, flags.method, ""));
  const std::string where = !flags.out.empty()       ? flags.out
                            : !flags.records.empty() ? flags.records
                                                     : options.records_dir;
  return Session(flags, lab, store).run(work, where);
}

}  // namespace

Verb add_tune_verb(CLI::App& app) {
  auto flags = std::make_shared<TuneFlags>();
  TuneFlags& f = *flags;
  CLI::App* verb = app.add_subcommand("tune", "Find the fastest configurations and keep them as records");
  add_many_requests_flags(*verb, f.requests);
  verb->add_option("--only", f.only, "Only problems with this text in their name, like e4m3 or 1024x");
  verb->add_option("--budget-s", f.settings.budget_s, "Seconds for all problems together")
      ->capture_default_str();
  CLI::Option* top = bounded(
      verb->add_option("--top", f.settings.top, "Most candidates of the model for each problem"), 1, 1000);
  verb->add_flag("--all", f.settings.every,
                 "Time every plan of a dense problem: each tile, cluster, number of parts and way to combine "
                 "them; takes minutes")
      ->excludes(top);
  verb->add_option(
      "--records", f.records,
      "Folder to keep the records in (else SLUICE_RECORDS_DIR or ~/.local/share/sluice/records)");
  verb->add_option("--out", f.out, "One file for all records instead: the form that ships");
  verb->add_flag("--again", f.again, "Measure problems too that this version and driver have a record of");
  verb->add_option("--json", f.json, "Write every candidate's time here, as sluice bench --tune does");
  bounded(verb->add_option("--rounds", f.settings.careful_rounds, "Timed replays of every finalist"),
          bench::kLeastRounds, 1000);
  bounded(verb->add_option("--rest-ms", f.method.rest_ms, "Rest before each"), 0.0, kLongestRest);
  verb->add_option("--seed", f.method.seed, "Seed of the data")->capture_default_str();
  add_run_flags(*verb, f.commit, f.hang_s);
  verb->add_option("--device", f.device, "Number of the GPU")->capture_default_str();
  return {verb, [flags] {
            flags->method.rounds = flags->settings.careful_rounds;
            return run_tune(*flags);
          }};
}

}  // namespace sluice::cli
