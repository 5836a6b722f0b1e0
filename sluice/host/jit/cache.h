// SPDX-License-Identifier: Apache-2.0
// From a unit's text to its cubin: memory, then disk, then NVRTC (docs/jit.md). Every Device has one.
// Invariants: a cubin comes from the compiler, or from bytes with a verified digest. A damaged or foreign
// entry is compiled anew. Disk trouble costs time, never a result.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <sluice/host/jit/build_report.h>
#include <sluice/options.h>
#include <sluice/result.h>

namespace sluice {

/// The compiler as the cache uses it; tests pass a fake. Both functions are called from any thread.
struct CompilerSeam {
  /// Part of the key, e.g. "NVRTC 13.0". Empty if this machine has no compiler.
  std::function<std::string()> version;
  std::function<Result<Cubin>(const std::string& unit)> compile;
  std::string prologue{};  // precedes every unit, and is part of the key
};
/// NVRTC from `nvrtc_path` (locate_nvrtc), loaded on the first compile.
CompilerSeam nvrtc_compiler(const std::string& nvrtc_path);

struct CacheStats {
  int memory_hits = 0;
  int disk_hits = 0;
  int compiles = 0;        // successful ones
  int damaged = 0;         // entries found unusable
  int write_failures = 0;  // not kept: disk full or read-only, or no lock; see write_problem()
};

class KernelCache {
 public:
  using Progress = std::function<void(int done, int total)>;

  explicit KernelCache(const Options& options);
  KernelCache(const Options& options, CompilerSeam compiler);
  ~KernelCache();
  KernelCache(KernelCache&&) noexcept;
  KernelCache& operator=(KernelCache&&) noexcept;

  /// Returns the unit's cubin. Concurrent requests for equal units compile once. Error toolchain: as
  /// Compiler::load and compile. Failures are not remembered, so a repaired machine needs no restart of the
  /// process.
  Result<std::shared_ptr<const Cubin>> get(const std::string& unit) const;

  /// Result i belongs to unit i; equal units are compiled once. `jobs` threads (0: as in Options, else one a
  /// core). `progress` gets the number of different units, from one thread at a time.
  std::vector<Result<std::shared_ptr<const Cubin>>> get_all(std::span<const std::string> units, int jobs,
                                                            const Progress& progress) const;

  /// Makes it an error that a kernel cannot be kept on disk, and stops compiling then. For programs that fill
  /// a cache; call it before the first get().
  void require_disk();

  CacheStats stats() const;
  /// Reason and remedy for the first kernel that was not kept; empty if all were.
  std::string write_problem() const;
  /// Tests the folder without a kernel: writes a small file and removes it; returns as write_problem(). Empty
  /// where nothing is to be written: read-only, or no folder (see disk_problem()).
  std::string probe_disk() const;
  /// Reason why nothing is kept on disk, for `sluice doctor`; else empty.
  const std::string& disk_problem() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
