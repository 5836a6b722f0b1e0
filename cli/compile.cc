// SPDX-License-Identifier: Apache-2.0
// `sluice compile`: fills a kernel cache ahead of time, for machines that shall not compile (no NVRTC, or a
// read-only cache in an image). Needs no GPU: cubins are for sm_90a whatever the machine.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include <sluice/host/jit/cache.h>
#include <sluice/host/jit/source.h>
#include <sluice/records.h>

#include "bench/shapes.h"
#include "cli/problem_flags.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct CompileFlags {
  ProblemFlags problem;
  std::string file, set, cache_dir, nvrtc;
  int jobs = 0;
  int top = 1;
};

Result<std::vector<ProblemRequest>> requests_of(const CompileFlags& flags) {
  if (!flags.file.empty()) return read_problem_file(flags.file);
  if (flags.set.empty()) {
    const Result<ProblemRequest> one = request_of(flags.problem);
    if (!one) return one.error();
    return std::vector<ProblemRequest>{*one};
  }
  const Result<std::vector<Problem>> problems = bench::problem_set(flags.set);
  if (!problems) return problems.error();
  std::vector<ProblemRequest> requests;
  for (const Problem& problem : *problems) requests.push_back({.problem = problem});
  return requests;
}

/// The units of the best `top` plans of every problem.
Result<std::vector<std::string>> units_of(const std::vector<ProblemRequest>& requests, int top,
                                          const RecordBook& records) {
  std::vector<std::string> units;
  for (const ProblemRequest& request : requests) {
    const Result<Plan> pick = gemm::plan(request.problem, DeviceInfo{}, request.overrides, records);
    if (!pick)
      return Error{pick.error().code,
                   fmt::format("{}: {}", bench::problem_text(request.problem), pick.error().message)};
    units.push_back(unit_text(pick->config));
    if (top <= 1) continue;
    const Result<std::vector<Plan>> more = gemm::candidates(request.problem, DeviceInfo{}, request.overrides);
    if (!more) return more.error();
    for (size_t i = 0; i < more->size() && i < static_cast<size_t>(top); ++i)
      units.push_back(unit_text((*more)[i].config));
  }
  return units;
}

Result<int> run_compile(const CompileFlags& flags) {
  const Result<std::vector<ProblemRequest>> requests = requests_of(flags);
  if (!requests) return requests.error();
  Options options = options_from_environment();
  const Result<std::vector<std::string>> units = units_of(*requests, flags.top, open_records(options));
  if (!units) return units.error();

  if (!flags.cache_dir.empty()) options.cache_dir = flags.cache_dir;
  if (!flags.nvrtc.empty()) options.nvrtc_path = flags.nvrtc;
  const KernelCache cache(options);
  if (!cache.disk_problem().empty())
    return Error{ErrorCode::io, fmt::format("nothing can be kept: {}", cache.disk_problem())};

  const auto start = std::chrono::steady_clock::now();
  Progress bar("compile", static_cast<int>(units->size()));
  const auto results = cache.get_all(*units, flags.jobs, [&bar](int done, int) { bar.update(done); });
  bar.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  std::string first_error;
  int failed = 0;
  for (const auto& result : results)
    if (!result && failed++ == 0) first_error = result.error().message;
  const CacheStats stats = cache.stats();
  fmt::print("{} problems: {} compiled, {} already there, {} failed; {:.1f} s; cache {}\n", requests->size(),
             stats.compiles, stats.disk_hits, failed, seconds, options.cache_dir);
  if (stats.write_failures > 0)
    return Error{ErrorCode::io, fmt::format("{} kernels were compiled but could not be kept in {}",
                                            stats.write_failures, options.cache_dir)};
  if (failed > 0) return Error{ErrorCode::toolchain, first_error};
  return kExitOk;
}

}  // namespace

Verb add_compile_verb(CLI::App& app) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App* verb = app.add_subcommand("compile", "Fill a kernel cache ahead of time; needs no GPU");
  add_problem_flags(*verb, flags->problem);
  add_override_flags(*verb, flags->problem);
  verb->add_option("--problems", flags->file, "File of problems: lines of flags, or a JSON array");
  verb->add_option("--set", flags->set,
                   "A named set: " + fmt::format("{}", fmt::join(bench::set_names(), ", ")));
  verb->add_option("--top", flags->top, "Kernels per problem, for tuning later")->capture_default_str();
  verb->add_option("--cache-dir", flags->cache_dir, "Where to (else SLUICE_CACHE_DIR or ~/.cache/sluice)");
  verb->add_option("--nvrtc", flags->nvrtc,
                   "The libnvrtc to compile with (else SLUICE_NVRTC or the toolkit's)");
  verb->add_option("--jobs", flags->jobs, "Compiles at a time; 0: one a core")->capture_default_str();
  return {verb, [flags] { return run_compile(*flags); }};
}

}  // namespace sluice::cli
