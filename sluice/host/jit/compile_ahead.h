// SPDX-License-Identifier: Apache-2.0
// Fills a kernel cache without a GPU. Used by ops/compile.cc, the C interface and the tool.
#pragma once

#include <span>
#include <string>

#include <sluice/compile.h>
#include <sluice/host/jit/cache.h>

namespace sluice {

/// Compiles those units that `cache` does not have yet; equal units once. `jobs` and `progress` as in
/// KernelCache::get_all. Error io: not all of them can be stored in the cache's folder.
Result<Compiled> fill(KernelCache cache, std::span<const std::string> units, int jobs,
                      const KernelCache::Progress& progress = {});

/// Fills the cache that `options` names. Errors: invalid_argument (the cache is read-only), io.
Result<Compiled> compile_units(std::span<const std::string> units, const Options& options);

}  // namespace sluice
