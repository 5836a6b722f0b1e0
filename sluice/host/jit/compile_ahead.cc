// SPDX-License-Identifier: Apache-2.0
// Implements compile_ahead.h.
#include <sluice/host/jit/compile_ahead.h>

#include <sluice/host/text/quoted.h>

namespace sluice {

Result<Compiled> fill(KernelCache cache, std::span<const std::string> units, int jobs,
                      const KernelCache::Progress& progress) {
  if (!cache.disk_problem().empty())
    return Error{ErrorCode::io, "nothing can be kept: " + cache.disk_problem()};
  cache.require_disk();
  const auto results = cache.get_all(units, jobs, progress);
  const CacheStats stats = cache.stats();
  Compiled done{.compiled = stats.compiles, .already_there = stats.disk_hits};
  for (const auto& result : results)
    if (!result && done.failed++ == 0) done.first_failure = result.error();
  if (done.ok() && stats.write_failures > 0) return Error{ErrorCode::io, cache.write_problem()};
  return done;
}

Result<Compiled> compile_units(std::span<const std::string> units, const Options& options) {
  if (options.cache_read_only)
    return Error{ErrorCode::invalid_argument, "the cache is read-only, and compile writes to " +
                                                  escaped(options.cache_dir) + ": let it be written"};
  return fill(KernelCache(options), units, options.jobs);
}

}  // namespace sluice
