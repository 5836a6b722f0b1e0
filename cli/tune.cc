// SPDX-License-Identifier: Apache-2.0
// `sluice tune`: finds the fastest configuration of each problem within a time budget, and stores a tuning
// record after each problem. The search is in bench/tune; this file chooses problems and prints.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>

#include <sluice/bench/tune.h>
#include <sluice/machine.h>
#include <sluice/messages/errors.h>
#include <sluice/text.h>
#include <sluice/try.h>

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
    const bench::Request usual = bench::request_of(request.problem);
    if (request.alpha != usual.alpha || request.beta != usual.beta)
      return of_problem(request, "--alpha and --beta have no effect here: leave them out of the file");
    if (has_overrides(request))
      return of_problem(request,
                        "tune chooses schedule, tile and order itself; leave their flags out of the file");
  }
  return requests;
}

/// Returns the name of the record of a problem; an error if the problem cannot be tuned.
Result<std::string> record_of_tunable(const bench::Request& request) {
  const Result<std::string> record = record_name(request.problem, DeviceInfo{});
  if (!record) return within(bench::name_of(request), record.error());
  if (bench::has_no_product(request.problem))
    return of_problem(request, "a product without elements has nothing to tune; leave it out");
  return record;
}

/// Returns the problems in their order, one per record, because equal recipes share one.
Result<std::vector<Problem>> problems_of(const TuneFlags& flags) {
  SLUICE_TAKE(const std::vector<bench::Request> listed, listed_problems(flags));
  std::vector<Problem> problems;
  std::set<std::string> seen;
  for (const bench::Request& request : listed) {
    if (bench::name_of(request).find(flags.only) == std::string::npos) continue;
    SLUICE_TAKE(std::string record, record_of_tunable(request));
    if (seen.insert(std::move(record)).second) problems.push_back(request.problem);
  }
  if (problems.empty())
    return bad_argument("no problem of the list has {} in its name: give a part of one",
                        in_quotes(flags.only));
  return problems;
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
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

/// Tunes the problems, from the first to the summary. `where`: the folder or file of the records.
Result<int> tune_all(const TuneFlags& flags, const bench::Lab& lab, RecordFile& records,
                     const std::vector<Problem>& problems, const std::string& where) {
  bench::RunRecord run = run_record(lab, flags.commit);
  run.tune = flags.settings.every ? 0 : flags.settings.top;
  fmt::print("{}, driver {}; {} in {:.0f} s; {}\n\n", device_of(lab).info().name,
             run.driver.empty() ? "unknown" : run.driver, counted(problems.size(), "problem"),
             flags.settings.budget_s, bench::method_text(flags.method));
  fmt::print("{}", paint(stdout, Colour::bold, tune_header()));
  const int total = static_cast<int>(problems.size());
  Progress bar("tune");
  Watchdog watchdog(flags.hang_s);
  Clock clock(now_s(), flags.settings.budget_s);
  size_t done = 0;
  std::vector<Problem> lowered;
  for (const Problem& problem : problems) lowered.push_back(bench::lowered(problem));
  const bench::TuneHooks hooks{
      .phase =
          [&](const std::string& what) {
            const std::string name = bench::name_of(problems[done]);
            watchdog.step(fmt::format("{}: {}", name, what));
            const int begun = static_cast<int>(done);
            bar.update(begun, total,
                       fmt::format("{}, {}: {}", clock.left(now_s(), total - begun), name, what));
          },
      .finished = [&](const TuneResult& result) -> Result<void> {
        const Problem& problem = problems[done++];
        clock.finished(result.state == TuneState::tuned || result.state == TuneState::failed);
        bar.clear();
        print_result(result, bench::name_of(problem));
        if (flags.json.empty() || result.state == TuneState::known || result.state == TuneState::no_time)
          return {};
        run.shapes.push_back(bench::shape_record_of(result));
        run.shapes.back().problem.conv = problem.conv;
        return bench::write_json(run, flags.json);
      }};
  const bench::TuneRun found = bench::tune(lab, records, lowered, flags.settings, hooks);
  bar.clear();
  fmt::print("\n{}", tune_summary(found.results, where, clock.elapsed_s(now_s())));
  if (found.ended) return within("the run ended early, what was found until then is stored", *found.ended);
  const bench::TuneSummary s = bench::summarise(found.results);
  return s.wrong_kernels == 0 && s.failed == 0 ? kExitOk : kExitNo;
}

Result<int> run_tune(const TuneFlags& flags) {
  if (!(flags.settings.budget_s > 0))
    return bad_argument("--budget-s {} must be above 0", flags.settings.budget_s);
  SLUICE_TAKE(const std::vector<Problem> problems, problems_of(flags));
  const Options options = options_from_environment();
  SLUICE_TAKE(RecordFile records, RecordFile::open(flags.out, flags.records, options));
  SLUICE_TAKE(const Device device,
              gpu_of(flags.device, options, "tune measures GPUs: without one there are plan and compile"));
  for (const std::string& trouble : records.troubles())
    fmt::print("{}\n", paint(stdout, Colour::yellow, "passed over: " + trouble));
  SLUICE_TAKE(const auto lab, bench::open_lab(device, {.method = flags.method}));
  const std::string where = !flags.out.empty()       ? flags.out
                            : !flags.records.empty() ? flags.records
                                                     : options.records_dir;
  return tune_all(flags, *lab, records, problems, where);
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
  verb->add_flag("--again", f.settings.again,
                 "Measure problems too that this version and driver have a record of");
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
