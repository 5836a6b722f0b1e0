// SPDX-License-Identifier: Apache-2.0
// `sluice compile`: fills a kernel cache ahead of time, for machines that must not compile (no NVRTC, or a
// read-only cache in an image). It compiles the kernels of the problems, and those that verify results and
// pack weights. Needs no GPU, because all cubins are for sm_90a. The plans depend on the GPU, which --device
// names.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>

#include <sluice/bench/verify.h>
#include <sluice/compile.h>
#include <sluice/messages/errors.h>
#include <sluice/rows.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "cli/bounded.h"
#include "cli/row_range.h"
#include "cli/target.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct CompileFlags {
  RequestFlags requests;
  PlanTarget target;
  std::string cache_dir, nvrtc, rows;
  RowRange range{};  // the value of --rows
  int jobs = 0;
  int top = 1;
};

/// Returns the plans that serve a range of rows.
Result<std::vector<Plan>> range_plans_of(const bench::Request& request, const Target& target,
                                         const RowRange& rows) {
  SLUICE_TAKE(const gemm::RowTable table,
              gemm::plan_rows(request.problem, rows, target.info(), target.records));
  return table.kernels;
}

/// Returns the planner's pick, then its next candidates, `top` plans in all.
Result<std::vector<Plan>> plans_of(const bench::Request& request, const Target& target,
                                   const CompileFlags& flags) {
  if (!flags.rows.empty()) return range_plans_of(request, target, flags.range);
  SLUICE_TAKE(Plan pick, plan_of(request, target.info(), target.records));
  std::vector<Plan> plans{std::move(pick)};
  if (flags.top <= 1) return plans;
  SLUICE_TAKE(const std::vector<Plan> more, candidates_of(request, target.info()));
  plans.insert(plans.end(), more.begin(),
               more.begin() + std::min<std::ptrdiff_t>(flags.top, static_cast<std::ptrdiff_t>(more.size())));
  return plans;
}

/// Distinct units: those that verify and pack, then those of each problem's plans. With several plans per
/// problem also the kernel that compares their results, which a race runs (Options::race).
Result<std::vector<std::string>> all_units(const std::vector<bench::Request>& requests, const Target& target,
                                           const CompileFlags& flags) {
  std::vector<std::string> units;
  std::set<std::string> seen;
  const auto add = [&](std::vector<std::string> more) {
    for (std::string& unit : more)
      if (seen.insert(unit).second) units.push_back(std::move(unit));
  };
  for (const bench::Request& request : requests) {
    const Result<std::vector<Plan>> plans = plans_of(request, target, flags);
    if (!plans) return within(bench::name_of(request), plans.error());
    add(bench::verifier_units(request.problem));
    for (const Plan& plan : *plans) add(gemm::units_of(plan));
  }
  if (flags.top > 1) add({race_unit()});
  return units;
}

Result<Options> options_of(const CompileFlags& flags) {
  Options options = options_from_environment();
  if (!flags.cache_dir.empty()) options.cache_dir = flags.cache_dir;
  if (!flags.nvrtc.empty()) options.nvrtc_path = flags.nvrtc;
  if (options.cache_read_only)
    return bad_argument("SLUICE_CACHE_READ_ONLY is set, and compile writes to {}: unset it to fill the cache",
                        escaped(options.cache_dir));
  return options;
}

/// Parses the text of --rows, if given, into flags.range.
Result<CompileFlags> with_rows(CompileFlags flags) {
  if (flags.rows.empty()) return flags;
  if (flags.top > 1) return bad_argument("--top has no effect with --rows: leave it out");
  SLUICE_TAKE(flags.range, parse_rows(flags.rows));
  return flags;
}

Result<int> run_compile(const CompileFlags& given) {
  SLUICE_TAKE(const CompileFlags flags, with_rows(given));
  SLUICE_TAKE(const Options options, options_of(flags));
  SLUICE_TAKE(const std::vector<bench::Request> requests, requests_of(flags.requests));
  if (!flags.rows.empty()) SLUICE_TRY(check_row_requests(flags.requests, requests));
  SLUICE_TAKE(const Target target, find_target(flags.target, options));
  SLUICE_TAKE(const std::vector<std::string> units, all_units(requests, target, flags));

  const auto start = std::chrono::steady_clock::now();
  Progress bar("compile");
  const auto filled =
      compile_units(units, options, flags.jobs, [&bar](int done, int total) { bar.update(done, total); });
  bar.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  SLUICE_TAKE(const Compiled done, filled);
  fmt::print(
      "{} for {} ({} SMs), and the verifier: {} compiled, {} already there, {} failed; {:.1f} s; cache {}\n",
      counted(requests.size(), "problem"), target.info().name, target.info().sm_count, done.compiled,
      done.already_there, done.failed, seconds, escaped(options.cache_dir));
  if (!done.ok()) return *done.first_failure;
  return kExitOk;
}

}  // namespace

Verb add_compile_verb(CLI::App& app) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App* verb = app.add_subcommand("compile", "Fill a kernel cache ahead of time; needs no GPU");
  add_many_requests_flags(*verb, flags->requests);
  add_plan_target(*verb, flags->target);
  bounded(verb->add_option("--top", flags->top, "Kernels per problem, for tuning and races later"), 1, 1000);
  verb->add_option("--rows", flags->rows, kRowsHelp);
  verb->add_option("--cache-dir", flags->cache_dir, "Where to (else SLUICE_CACHE_DIR or ~/.cache/sluice)");
  verb->add_option("--nvrtc", flags->nvrtc,
                   "The libnvrtc to compile with (else SLUICE_NVRTC or the toolkit's)");
  bounded(verb->add_option("--jobs", flags->jobs, "Compiles at a time; 0: one a core"), 0, 1024);
  return {verb, [flags] { return run_compile(*flags); }};
}

}  // namespace sluice::cli
