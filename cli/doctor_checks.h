// SPDX-License-Identifier: Apache-2.0
// Checks, one by one, what sluice needs from a machine. Each check states its finding and, if something is
// missing, the remedy. It changes nothing, but creates the cache folder if there is none.
#pragma once

#include <string>
#include <vector>

#include <sluice/options.h>

namespace sluice::cli {

enum class Health {
  ok,
  optional,  // missing, needed by some verbs only
  cached,    // missing, but `sluice compile` filled the kernel cache
  missing,   // needed
};

struct Check {
  std::string name;
  Health health = Health::ok;
  std::string found;
  std::string remedy;  // if not ok
};

struct DoctorRequest {
  Options options;
  bool gpu = true;       // false: a build or CI machine, where driver and GPU are optional
  std::string cublaslt;  // the value of --cublaslt
  std::string cudnn;     // and of --cudnn
};

/// The compiler whose packed kernels tools/scan_packed_cubins.py has scanned; docs/packed.md names it too.
inline constexpr const char* kScannedCompiler = "NVRTC 13.0.88";

std::vector<Check> examine(const DoctorRequest& request);
/// The worst of all; ok if only optional things are missing.
Health verdict(const std::vector<Check>& checks);

/// The single checks, for tests.
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
