// SPDX-License-Identifier: Apache-2.0
// From a unit's text to its cubin: memory, then disk, then NVRTC; docs/jit.md has the whole path.
// Invariants: a cubin comes from the compiler or from bytes whose digest was checked; a damaged or foreign
// entry is compiled anew; trouble with the disk costs time, never a result. Held by every Device.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <sluice/host/jit/build_report.h>
#include <sluice/options.h>
#include <sluice/result.h>

namespace sluice {

/// What the cache needs of a compiler; tests put a fake one here. Both are called from any thread.
struct CompilerSeam {
  /// Part of the key, e.g. "NVRTC 13.0"; empty: there is no compiler on this machine.
  std::function<std::string()> version;
  std::function<Result<Cubin>(const std::string& unit)> compile;
  std::string prologue{};  // put in front of every unit, also in the key
};
/// NVRTC from `nvrtc_path` (locate_nvrtc), loaded at the first compile.
CompilerSeam nvrtc_compiler(const std::string& nvrtc_path);

struct CacheStats {
  int memory_hits = 0;
  int disk_hits = 0;
  int compiles = 0;        // that succeeded
  int damaged = 0;         // entries found unusable
  int write_failures = 0;  // not kept: disk full or read-only, a lock not had; write_problem() says why
};

class KernelCache {
 public:
  using Progress = std::function<void(int done, int total)>;

  explicit KernelCache(const Options& options);
  KernelCache(const Options& options, CompilerSeam compiler);
  ~KernelCache();
  KernelCache(KernelCache&&) noexcept;
  KernelCache& operator=(KernelCache&&) noexcept;

  /// Equal units asked for at the same time are compiled once. Error toolchain: as Compiler::load and
  /// compile; nothing is remembered then, not even that there is no compiler, so that a repaired machine need
  /// not restart the process.
  Result<std::shared_ptr<const Cubin>> get(const std::string& unit) const;

  /// The i-th result belongs to the i-th unit; equal units are compiled once. `jobs` threads (0: as in
  /// Options, else one a core). `progress` gets the number of different units, from one thread at a time.
  std::vector<Result<std::shared_ptr<const Cubin>>> get_all(std::span<const std::string> units, int jobs,
                                                            const Progress& progress) const;

  /// From now on a kernel that cannot be kept on disk is an error, and no further one is compiled: for those
  /// that fill a cache. Call it before the first get().
  void require_disk();

  CacheStats stats() const;
  /// Why the first kernel that was not kept was not, and what to do; empty: all were.
  std::string write_problem() const;
  /// The same, asked of the folder without a kernel: writes a small file and removes it. Empty where nothing
  /// shall be written (read-only, or no folder, which disk_problem() tells of).
  std::string probe_disk() const;
  /// Why nothing is kept on disk, for `sluice doctor`; empty if it is.
  const std::string& disk_problem() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
