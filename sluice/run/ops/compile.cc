// SPDX-License-Identifier: Apache-2.0
// Implements sluice/compile.h: collects the units of all plans, and compiles units into a cache.
#include <sluice/compile.h>

#include <sluice/run/device/device_impl.h>
#include <sluice/run/jit/cache.h>
#include <sluice/run/ops/compare.h>
#include <sluice/run/ops/experts/combine.h>
#include <sluice/run/ops/experts/route.h>
#include <sluice/run/ops/gemm.h>
#include <sluice/run/ops/norm.h>
#include <sluice/run/ops/quantize.h>
#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice {
namespace {

template <class Op>
Result<Compiled> compile_all(std::span<const typename Op::Plan> plans, const Options& options) {
  std::vector<std::string> units;
  for (const auto& plan : plans)
    for (std::string& unit : Op::units(plan)) units.push_back(std::move(unit));
  return compile_units(units, options);
}

Result<BuiltKernel> built(const KernelCache& cache, const std::string& unit) {
  const int compiles = cache.stats().compiles;
  SLUICE_TAKE(const std::shared_ptr<const Cubin> cubin, cache.get(unit));
  const BuildReport& report = cubin->report;
  BuiltKernel kernel{.compiled = cache.stats().compiles > compiles,
                     .compiler = report.compiler,
                     .compile_seconds = report.seconds,
                     .registers = report.registers,
                     .spill_bytes = report.spill_bytes,
                     .bytes = static_cast<i64>(cubin->image.size())};
  if (kernel.compiled)
    kernel.not_stored = cache.disk_problem().empty() ? cache.write_problem() : cache.disk_problem();
  return kernel;
}

}  // namespace

Result<Compiled> compile(std::span<const Plan> plans, const Options& options) {
  return compile_all<ops::Gemm>(plans, options);
}
Result<Compiled> compile(std::span<const QuantizerOptions> quantizers, const Options& options) {
  return compile_all<ops::QuantizeOp>(quantizers, options);
}
Result<Compiled> compile(std::span<const NormOptions> norms, const Options& options) {
  return compile_all<ops::NormOp>(norms, options);
}
Result<Compiled> compile(std::span<const RouteOptions> routers, const Options& options) {
  return compile_all<ops::RouteOp>(routers, options);
}
Result<Compiled> compile(std::span<const CombineOptions> combiners, const Options& options) {
  return compile_all<ops::CombineOp>(combiners, options);
}

std::string race_unit() {
  return ops::compare_unit_text();
}

Result<Compiled> compile_units(std::span<const std::string> units, const Options& options, int jobs,
                               const CompileProgress& progress) {
  if (options.cache_read_only)
    return Error{ErrorCode::invalid_argument, "the cache is read-only, and compile writes to " +
                                                  escaped(options.cache_dir) + ": let it be written"};
  KernelCache cache(options);
  if (!cache.disk_problem().empty())
    return Error{ErrorCode::io, "nothing can be kept: " + cache.disk_problem()};
  cache.require_disk();
  const auto results = cache.get_all(units, jobs > 0 ? jobs : options.jobs, progress);
  const CacheStats stats = cache.stats();
  Compiled done{.compiled = stats.compiles, .already_there = stats.disk_hits};
  for (const auto& result : results)
    if (!result && done.failed++ == 0) done.first_failure = result.error();
  if (done.ok() && stats.write_failures > 0) return Error{ErrorCode::io, cache.write_problem()};
  return done;
}

Result<BuiltKernel> build_unit(const std::string& unit, const Options& options) {
  return built(KernelCache(options), unit);
}
Result<BuiltKernel> build_unit(const std::string& unit, const Device& device) {
  return built(device.impl().cache, unit);
}

}  // namespace sluice
