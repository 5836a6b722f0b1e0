// SPDX-License-Identifier: Apache-2.0
// `sluice compile`: fills a kernel cache ahead of time, for machines that shall not compile (no NVRTC, or a
// read-only cache in an image): the kernels of the problems, and those that verify results. Needs no GPU:
// cubins are for sm_90a whatever the machine. Plans depend on the GPU, though: --device says which.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include <sluice/host/jit/cache.h>
#include <sluice/host/jit/source.h>
#include <sluice/host/verify_units.h>

#include "bench/shapes.h"
#include "cli/requests.h"
#include "cli/target.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct CompileFlags {
  RequestFlags requests;
  std::string device = "auto", cache_dir, nvrtc;
  int jobs = 0;
  int top = 1;
};

/// What the planner picks, then its candidates up to `top`.
Result<std::vector<Plan>> plans_of(const ProblemRequest& request, const Target& target, int top) {
  Result<Plan> pick = gemm::plan(request.problem, target.info(), request.overrides, target.records);
  if (!pick) return pick.error();
  std::vector<Plan> plans{*std::move(pick)};
  if (top <= 1) return plans;
  const Result<std::vector<Plan>> more = gemm::candidates(request.problem, target.info(), request.overrides);
  if (!more) return more.error();
  plans.insert(plans.end(), more->begin(),
               more->begin() + std::min<std::ptrdiff_t>(top, static_cast<std::ptrdiff_t>(more->size())));
  return plans;
}

/// Different ones: those that verify, and those of the best `top` plans of every problem.
Result<std::vector<std::string>> units_of(const std::vector<ProblemRequest>& requests, const Target& target,
                                          int top, Stamping stamping) {
  std::vector<std::string> units = {verify_unit_text(VerifyUnit::fill), verify_unit_text(VerifyUnit::check)};
  for (const ProblemRequest& request : requests) {
    const Result<std::vector<Plan>> plans = plans_of(request, target, top);
    if (!plans)
      return Error{plans.error().code,
                   fmt::format("{}: {}", bench::problem_text(request.problem), plans.error().message)};
    for (const Plan& plan : *plans) {
      for (std::string& unit : unit_texts(plan.config, stamping))
        if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(std::move(unit));
    }
  }
  return units;
}

Result<Options> options_of(const CompileFlags& flags) {
  Options options = options_from_environment();
  if (!flags.cache_dir.empty()) options.cache_dir = flags.cache_dir;
  if (!flags.nvrtc.empty()) options.nvrtc_path = flags.nvrtc;
  if (options.cache_read_only)
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("SLUICE_CACHE_READ_ONLY is set, and compile writes to {}: unset it to fill the cache",
                    options.cache_dir)};
  return options;
}

Result<int> run_compile(const CompileFlags& flags) {
  const Result<Options> options = options_of(flags);
  if (!options) return options.error();
  const Result<std::vector<ProblemRequest>> requests = requests_of(flags.requests);
  if (!requests) return requests.error();
  const Result<Target> target = find_target(flags.device, *options);
  if (!target) return target.error();
  const Result<std::vector<std::string>> units =
      units_of(*requests, *target, flags.top, stamping_of(*options));
  if (!units) return units.error();
  const KernelCache cache(*options);
  if (!cache.disk_problem().empty())
    return Error{ErrorCode::io, fmt::format("nothing can be kept: {}", cache.disk_problem())};

  const auto start = std::chrono::steady_clock::now();
  Progress bar("compile");
  const auto results =
      cache.get_all(*units, flags.jobs, [&bar](int done, int total) { bar.update(done, total); });
  bar.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  std::string first_error;
  int failed = 0;
  for (const auto& result : results)
    if (!result && failed++ == 0) first_error = result.error().message;
  const CacheStats stats = cache.stats();
  fmt::print(
      "{} problems for {} ({} SMs), and the verifier: {} compiled, {} already there, {} failed; {:.1f} s; "
      "cache {}\n",
      requests->size(), target->info().name, target->info().sm_count, stats.compiles, stats.disk_hits, failed,
      seconds, options->cache_dir);
  if (stats.write_failures > 0)
    return Error{ErrorCode::io, fmt::format("{} kernels were compiled but could not be kept in {}",
                                            stats.write_failures, options->cache_dir)};
  if (failed > 0) return Error{ErrorCode::toolchain, first_error};
  return kExitOk;
}

}  // namespace

Verb add_compile_verb(CLI::App& app) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App* verb = app.add_subcommand("compile", "Fill a kernel cache ahead of time; needs no GPU");
  add_many_requests_flags(*verb, flags->requests);
  verb->add_option("--device", flags->device,
                   "Plan for: auto (the GPU that is here, else as host), host (an H200 with 132 SMs), or the "
                   "number of a GPU")
      ->capture_default_str();
  verb->add_option("--top", flags->top, "Kernels per problem, for tuning later")->capture_default_str();
  verb->add_option("--cache-dir", flags->cache_dir, "Where to (else SLUICE_CACHE_DIR or ~/.cache/sluice)");
  verb->add_option("--nvrtc", flags->nvrtc,
                   "The libnvrtc to compile with (else SLUICE_NVRTC or the toolkit's)");
  verb->add_option("--jobs", flags->jobs, "Compiles at a time; 0: one a core")->capture_default_str();
  return {verb, [flags] { return run_compile(*flags); }};
}

}  // namespace sluice::cli
