// SPDX-License-Identifier: Apache-2.0
// NVRTC as a value: text in, cubin for sm_90a out. No file is read or written: headers come from
// embedded_files(), and the unit's own folder is not searched. Called by the cache; safe from many threads
// (NVRTC keeps no state between programs).
#pragma once

#include <memory>
#include <span>

#include <sluice/host/jit/build_report.h>
#include <sluice/host/jit/nvrtc_api.h>
#include <sluice/result.h>

namespace sluice {

class Compiler {
 public:
  /// `nvrtc_path`: see locate_nvrtc. Error toolchain: not found, not loadable, too old.
  static Result<std::shared_ptr<const Compiler>> load(const std::string& nvrtc_path);

  /// Error toolchain: NVRTC refused the text; the message holds its log.
  /// `more`: options beside the usual ones, for what a tool wants to know of the code (line numbers).
  Result<Cubin> compile(const std::string& unit, std::span<const char* const> more = {}) const;

  /// "NVRTC 13.0"
  std::string version() const;
  /// The library that was loaded.
  const std::string& path() const { return api_.path; }

  explicit Compiler(NvrtcApi api) : api_(std::move(api)) {}

 private:
  NvrtcApi api_;
};

/// The options of every compile; part of the cache key.
std::span<const char* const> compile_options();

}  // namespace sluice
