// SPDX-License-Identifier: Apache-2.0
// What sluice needs from a machine, checked one thing at a time. Every check says what it found, and if
// something is missing, what to do about it. Nothing is changed, but for the cache folder if it is not there.
#pragma once

#include <string>
#include <vector>

#include <sluice/options.h>

namespace sluice::cli {

enum class Health {
  ok,
  optional,  // missing, and only some verbs want it
  cached,    // missing, and a kernel cache that `sluice compile` filled stands in for it
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
  std::string cublaslt;  // as --cublaslt
};

std::vector<Check> examine(const DoctorRequest& request);
/// The worst of all; ok if nothing worse than optional is missing.
Health verdict(const std::vector<Check>& checks);

/// Each check by itself, for tests.
Check check_driver(bool needed);
Check check_gpu(const Options& options, bool needed);
Check check_nvrtc(const Options& options);
Check check_compile(const Options& options);
Check check_cache(const Options& options);
Check check_environment();
Check check_records(const Options& options);
Check check_cublaslt(const std::string& path);

}  // namespace sluice::cli
