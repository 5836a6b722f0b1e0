// SPDX-License-Identifier: Apache-2.0
// The cache of what this build's compile tests compile, under the build folder. Cubins are kept by content: a
// later test or run compiles only what a change touched. SLUICE_GATE_FORCE=1 compiles all.
#pragma once

#include <stdlib.h>

#include <sluice/host/jit/cache.h>

namespace sluice::test {

inline KernelCache gate_cache() {
  Options options;
  if (getenv("SLUICE_GATE_FORCE") == nullptr) options.cache_dir = SLUICE_BINARY_DIR "/gate-cache";
  return KernelCache(options);
}

}  // namespace sluice::test
