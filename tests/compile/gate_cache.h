// SPDX-License-Identifier: Apache-2.0
// A cache, in the build folder, of the kernels that compile tests compile. Entries are found by content, so a
// later test or run compiles only what a change affects.
#pragma once

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include <sluice/run/jit/cache.h>

namespace sluice::test {

inline KernelCache gate_cache() {
  Options options;
  options.cache_dir = SLUICE_BINARY_DIR "/gate-cache";
  return KernelCache(options);
}

/// Runs `work` in a child process until one child ends without a signal. Returns the number of children that
/// a signal ended: `most` if all `most` of them did.
inline int crashes_of(const std::function<void()>& work, int most = 3) {
  for (int crashes = 0; crashes < most; ++crashes) {
    const pid_t child = fork();
    if (child == 0) {
      work();
      _exit(0);
    }
    int status = 0;
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)) return crashes;
  }
  return most;
}

/// Returns the cubins of `units`, in order. Children compile them into the cache, in one thread:
/// NVRTC 13.0.88 crashes in about one of ten processes that compile 900 kernels
/// (docs/findings/nvrtc-crash.md). A kernel that crashes it every time ends the caller too.
inline std::vector<Result<std::shared_ptr<const Cubin>>> gate_cubins(const KernelCache& cache,
                                                                     const std::vector<std::string>& units) {
  if (const int crashes = crashes_of([&] { (void)gate_cache().get_all(units, /*jobs=*/1, {}); }); crashes > 0)
    fmt::print("NVRTC crashed {} times; its next process went on\n", crashes);
  return cache.get_all(units, /*jobs=*/1, {});
}

}  // namespace sluice::test
