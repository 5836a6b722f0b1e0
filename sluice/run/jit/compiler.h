// SPDX-License-Identifier: Apache-2.0
// NVRTC as an object: from a text to a cubin for sm_90a. It reads no files: headers come from
// embedded_files(), and no folder is searched. Called by the cache. Thread-safe, because NVRTC keeps no state
// between programs.
#pragma once

#include <memory>
#include <span>

#include <sluice/result.h>
#include <sluice/run/jit/build_report.h>
#include <sluice/run/jit/nvrtc_api.h>

namespace sluice {

class Compiler {
 public:
  /// Loads NVRTC. `nvrtc_path`: see locate_nvrtc. Error toolchain: it was not found, cannot be loaded, or is
  /// too old.
  static Result<std::shared_ptr<const Compiler>> load(const std::string& nvrtc_path);

  /// Compiles `unit`. `more`: further options, such as line numbers for a profiler. Error toolchain: NVRTC
  /// rejected the text; the message contains its log.
  Result<Cubin> compile(const std::string& unit, std::span<const char* const> more = {}) const;

  /// Returns the compiler's name, for example "NVRTC 13.0".
  std::string version() const;
  const std::string& path() const { return api_.path; }

  explicit Compiler(NvrtcApi api) : api_(std::move(api)) {}

 private:
  NvrtcApi api_;
};

/// Returns the options of every compile; they are part of the cache key.
std::span<const char* const> compile_options();

}  // namespace sluice
