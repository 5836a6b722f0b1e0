// SPDX-License-Identifier: Apache-2.0
// Finds the cubin of a unit's text: in memory, then on disk, else NVRTC compiles it (docs/jit.md). Every
// Device has a cache. A cubin comes from the compiler, or from bytes with a verified digest. A damaged or
// foreign entry is compiled again. A failing disk costs time, but never changes a result.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <sluice/options.h>
#include <sluice/result.h>
#include <sluice/run/jit/build_report.h>

namespace sluice {

/// The interface between cache and compiler; tests pass a fake. Both functions may be called from any thread.
struct CompilerSeam {
  /// Returns the compiler's name, a part of the key, such as "NVRTC 13.0". Empty if this machine has no
  /// compiler.
  std::function<std::string()> version;
  std::function<Result<Cubin>(const std::string& unit)> compile;
};
/// Returns NVRTC as a compiler: from `nvrtc_path` (locate_nvrtc), loaded on the first compile.
CompilerSeam nvrtc_compiler(const std::string& nvrtc_path);

struct CacheStats {
  int memory_hits = 0;
  int disk_hits = 0;
  int compiles = 0;        // successful compiles
  int damaged = 0;         // entries that were unusable
  int write_failures = 0;  // kernels not stored: disk full or read-only, or no lock; see write_problem()
};

class KernelCache {
 public:
  using Progress = std::function<void(int done, int total)>;

  explicit KernelCache(const Options& options);
  KernelCache(const Options& options, CompilerSeam compiler);
  ~KernelCache();
  KernelCache(KernelCache&&) noexcept;
  KernelCache& operator=(KernelCache&&) noexcept;

  /// Returns the unit's cubin. Concurrent requests for equal units compile once. Error toolchain: those of
  /// Compiler::load and compile. Failures are not remembered, so the process need not restart once the
  /// machine is repaired.
  Result<std::shared_ptr<const Cubin>> get(const std::string& unit) const;

  /// Returns one result per unit, in order; equal units are compiled once. `jobs`: number of threads (0: as
  /// in Options, else one per core). `progress` gets the number of different units; calls to it never
  /// overlap.
  std::vector<Result<std::shared_ptr<const Cubin>>> get_all(std::span<const std::string> units, int jobs,
                                                            const Progress& progress) const;

  /// After this call it is an error if a kernel cannot be stored on disk, and compiling stops then. For
  /// programs that fill a cache; call it before the first get().
  void require_disk();

  CacheStats stats() const;
  /// Returns reason and remedy for the first kernel that could not be stored; empty if all were.
  std::string write_problem() const;
  /// Tests the folder without a kernel: writes a small file and removes it. Returns reason and remedy, or
  /// empty if it works or nothing is to be written: the cache is read-only, or there is no folder (see
  /// disk_problem()).
  std::string probe_disk() const;
  /// Returns the reason why nothing is stored on disk, for `sluice doctor`; empty if the disk is used.
  const std::string& disk_problem() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
