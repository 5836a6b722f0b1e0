// SPDX-License-Identifier: Apache-2.0
// NVRTC as a value: text in, cubin for sm_90a out. It touches no file: headers come from embedded_files(),
// and no folder is searched. Called by the cache; thread-safe, since NVRTC keeps no state between programs.
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

  /// Compiles `unit`. `more` adds options, such as line numbers for a tool. Error toolchain: NVRTC refused
  /// the text; the message holds its log.
  Result<Cubin> compile(const std::string& unit, std::span<const char* const> more = {}) const;

  /// e.g. "NVRTC 13.0"
  std::string version() const;
  const std::string& path() const { return api_.path; }

  explicit Compiler(NvrtcApi api) : api_(std::move(api)) {}

 private:
  NvrtcApi api_;
};

/// Options of every compile; part of the cache key.
std::span<const char* const> compile_options();

}  // namespace sluice
