// SPDX-License-Identifier: Apache-2.0
// `sluice compile`: fills a kernel cache ahead of time, for machines that shall not compile (no NVRTC, or a
// read-only cache in an image): the kernels of the problems, those that verify results, and those that pack
// weights. Needs no GPU:
// cubins are for sm_90a whatever the machine. Plans depend on the GPU, though: --device says which.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>

#include <sluice/check/packed_check.h>
#include <sluice/check/verify_units.h>
#include <sluice/host/jit/cache.h>
#include <sluice/host/jit/source.h>
#include <sluice/host/ops/gemm.h>
#include <sluice/host/text/pack_units.h>
#include <sluice/host/text/packed_units.h>
#include <sluice/host/text/quoted.h>

#include "bench/rows.h"
#include "cli/packed_flags.h"
#include "cli/row_range.h"
#include "cli/target.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace sluice::cli {
namespace {

struct CompileFlags {
  RequestFlags requests;
  PackedFlags packed;
  PlanTarget target;
  std::string cache_dir, nvrtc, rows;
  bench::RowsMethod drawn{.numbers = 0};
  int jobs = 0;
  int top = 1;
};

Result<Plan> plan_of(const ProblemRequest& r, const Target& target) {
  return gemm::plan(r.problem, target.info(), r.overrides, target.records);
}
Result<packed::Plan> plan_of(const bench::PackedCase& r, const Target& target) {
  return packed::plan(r.problem, target.info(), r.overrides, target.records);
}
Result<std::vector<Plan>> candidates_of(const ProblemRequest& r, const Target& target) {
  return gemm::candidates(r.problem, target.info(), r.overrides);
}
Result<std::vector<packed::Plan>> candidates_of(const bench::PackedCase& r, const Target& target) {
  return packed::candidates(r.problem, target.info(), r.overrides);
}
std::vector<std::string> texts_of(const Plan& plan, Stamping stamping) {
  return gemm::units_of(plan, stamping);
}
std::vector<std::string> texts_of(const packed::Plan& plan, Stamping) {
  return packed::units_of(plan);
}

/// What verifies a result, and what packs weights before there is one. The first two are of every bench and
/// tuning run (bench/lab.h).
std::vector<std::string> helpers_of(const ProblemRequest&) {
  return {verify_unit_text(VerifyUnit::fill), verify_unit_text(VerifyUnit::check)};
}
std::vector<std::string> helpers_of(const bench::PackedCase& r) {
  std::vector<std::string> units{verify_unit_text(VerifyUnit::fill), verify_unit_text(VerifyUnit::check),
                                 packed::reference_unit_text()};
  for (const CodeStorage codes : {CodeStorage::byte, CodeStorage::nibble})
    if (const PackConfig config{.format = r.problem.weights, .codes = codes};
        codes == CodeStorage::byte || code_bits(config.format.type) == 4)
      units.push_back(pack_unit_text(config));
  return units;
}

Result<gemm::RowTable> table_of(const ProblemRequest& r, const Target& target, RowRange rows) {
  return gemm::plan_rows(r.problem, rows, target.info(), target.records);
}
Result<packed::RowTable> table_of(const bench::PackedCase& r, const Target& target, RowRange rows) {
  return packed::plan_rows(r.problem, rows, target.info(), target.records);
}

/// Those that serve the range, then those of what `sluice rows` times beside them.
template <class Request>
Result<std::vector<std::string>> range_units_of(const Request& request, const Target& target,
                                                const CompileFlags& flags, Stamping stamping) {
  const auto table = table_of(request, target, flags.drawn.rows);
  if (!table) return table.error();
  std::vector plans = table->kernels;
  std::vector<i64> drawn = flags.drawn.numbers > 0 ? bench::drawn_rows(flags.drawn) : std::vector<i64>();
  if (!drawn.empty()) drawn.push_back(table->summary.worst_m);
  for (const i64 m : drawn) {
    Request one = request;
    one.problem.m = m;
    const auto alone = plan_of(one, target);
    if (!alone) return alone.error();
    plans.push_back(*alone);
  }
  std::vector<std::string> units = helpers_of(request);
  for (const auto& plan : plans)
    for (std::string& unit : texts_of(plan, stamping)) units.push_back(std::move(unit));
  return units;
}

/// Those of what the planner picks, then of its candidates up to `top`.
template <class Request>
Result<std::vector<std::string>> units_of(const Request& request, const Target& target,
                                          const CompileFlags& flags, Stamping stamping) {
  if (!flags.rows.empty()) return range_units_of(request, target, flags, stamping);
  const auto pick = plan_of(request, target);
  if (!pick) return pick.error();
  std::vector plans{*pick};
  if (flags.top > 1) {
    const auto more = candidates_of(request, target);
    if (!more) return more.error();
    plans.insert(
        plans.end(), more->begin(),
        more->begin() + std::min<std::ptrdiff_t>(flags.top, static_cast<std::ptrdiff_t>(more->size())));
  }
  std::vector<std::string> units = helpers_of(request);
  for (const auto& plan : plans)
    for (std::string& unit : texts_of(plan, stamping)) units.push_back(std::move(unit));
  return units;
}

/// Different ones: those that verify, and those of the best `top` plans of every problem.
Result<std::vector<std::string>> units_of(const std::vector<AnyRequest>& requests, const Target& target,
                                          const CompileFlags& flags, Stamping stamping) {
  std::vector<std::string> units;
  std::set<std::string> seen;
  for (const AnyRequest& request : requests) {
    Result<std::vector<std::string>> more =
        std::visit([&](const auto& r) { return units_of(r, target, flags, stamping); }, request);
    if (!more)
      return Error{more.error().code,
                   fmt::format("{}: {}", bench::name_of(problem_of(request)), more.error().message)};
    for (std::string& unit : *more)
      if (seen.insert(unit).second) units.push_back(std::move(unit));
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
                    escaped(options.cache_dir))};
  return options;
}

/// With the range that its text names, if any.
Result<CompileFlags> with_rows(CompileFlags flags) {
  if (flags.rows.empty() && flags.drawn.numbers > 0)
    return Error{ErrorCode::invalid_argument,
                 "--numbers has no effect without --rows: give a range, or leave it out"};
  if (flags.rows.empty()) return flags;
  if (flags.top > 1)
    return Error{ErrorCode::invalid_argument, "--top has no effect with --rows: leave it out"};
  const Result<RowRange> rows = parse_rows(flags.rows);
  if (!rows) return rows.error();
  flags.drawn.rows = *rows;
  return flags;
}

Result<int> run_compile(const CompileFlags& given) {
  const Result<CompileFlags> checked = with_rows(given);
  if (!checked) return checked.error();
  const CompileFlags& flags = *checked;
  const Result<Options> options = options_of(flags);
  if (!options) return options.error();
  const Result<std::vector<AnyRequest>> requests = requests_of(flags.requests, flags.packed);
  if (!requests) return requests.error();
  if (!flags.rows.empty())
    if (Result<void> none = refuse_overrides(flags.requests, flags.packed, *requests); !none)
      return none.error();
  const Result<Target> target = find_target(flags.target, *options);
  if (!target) return target.error();
  const Result<std::vector<std::string>> units = units_of(*requests, *target, flags, stamping_of(*options));
  if (!units) return units.error();
  KernelCache cache(*options);
  if (!cache.disk_problem().empty())
    return Error{ErrorCode::io, fmt::format("nothing can be kept: {}", cache.disk_problem())};
  cache.require_disk();

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
      seconds, escaped(options->cache_dir));
  if (stats.write_failures > 0) return Error{ErrorCode::io, cache.write_problem()};
  if (failed > 0) return Error{ErrorCode::toolchain, first_error};
  return kExitOk;
}

}  // namespace

Verb add_compile_verb(CLI::App& app) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App* verb = app.add_subcommand("compile", "Fill a kernel cache ahead of time; needs no GPU");
  add_many_requests_flags(*verb, flags->requests);
  add_packed_flags(*verb, flags->packed);
  add_plan_target(*verb, flags->target);
  verb->add_option("--top", flags->top, "Kernels per problem, for tuning later")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  verb->add_option("--rows", flags->rows, kRowsHelp);
  verb->add_option("--numbers", flags->drawn.numbers,
                   "With --rows: also what so many numbers of rows get alone, for `sluice rows`")
      ->check(CLI::Range(1, 4096));
  verb->add_option("--draw", flags->drawn.seed, "Seed of their draw")->capture_default_str();
  verb->add_option("--cache-dir", flags->cache_dir, "Where to (else SLUICE_CACHE_DIR or ~/.cache/sluice)");
  verb->add_option("--nvrtc", flags->nvrtc,
                   "The libnvrtc to compile with (else SLUICE_NVRTC or the toolkit's)");
  verb->add_option("--jobs", flags->jobs, "Compiles at a time; 0: one a core")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  return {verb, [flags] { return run_compile(*flags); }};
}

}  // namespace sluice::cli
