// SPDX-License-Identifier: Apache-2.0
// Checks one by one what sluice needs of a machine. Each check states what it found and, if something is
// missing, the remedy. Changes nothing, except that it creates the cache folder if there is none.
#pragma once

#include <string>
#include <vector>

#include <sluice/options.h>

namespace sluice::cli {

enum class Health {
  ok,
  optional,  // missing, but only some verbs need it
  cached,    // missing, but `sluice compile` has filled the kernel cache, which replaces it
  missing,   // missing, and needed
};

struct Check {
  std::string name;
  Health health = Health::ok;
  std::string found;
  std::string remedy;  // how to mend it; empty if ok
};

struct DoctorRequest {
  Options options;
  bool gpu = true;       // false: a build or CI machine, which need not have a driver or GPU
  std::string cublaslt;  // the value of --cublaslt
  std::string cudnn;     // the value of --cudnn
};

/// The compiler whose packed kernels tools/scan_packed_cubins.py has checked. docs/packed.md names it too.
inline constexpr const char* kScannedCompiler = "NVRTC 13.0.88";

std::vector<Check> examine(const DoctorRequest& request);
/// Returns the worst health of all checks; `ok` if only optional things are missing.
Health verdict(const std::vector<Check>& checks);

/// The single checks, declared for tests.
Check check_driver(bool needed);
Check check_gpu(const Options& options, bool needed);
Check check_nvrtc(const Options& options);
Check check_compile(const Options& options);
Check check_cache(const Options& options);
Check check_environment();
Check check_records(const Options& options);
Check check_calibration(const Options& options);
Check check_cublaslt(const std::string& path);
Check check_cudnn(const std::string& path);

}  // namespace sluice::cli
