// SPDX-License-Identifier: Apache-2.0
// A cache, in the build folder, of the kernels that compile tests compile. Entries are found by content, so a
// later test or run compiles only what a change affects. SLUICE_GATE_FORCE=1 compiles everything.
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
