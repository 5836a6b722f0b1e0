// SPDX-License-Identifier: Apache-2.0
// Compiling ahead of time: fills the kernel cache of Options::cache_dir. Needs NVRTC, and neither a GPU nor a
// driver: a plan for DeviceInfo{} (an H200) runs on any Hopper GPU.
//   const auto plan = sluice::gemm::plan(problem, sluice::DeviceInfo{});
//   const auto done = sluice::compile({&*plan, 1}, sluice::options_from_environment());
#pragma once

#include <optional>
#include <span>

#include <sluice/norm.h>
#include <sluice/options.h>
#include <sluice/plan.h>
#include <sluice/quantize.h>

namespace sluice {

/// How many kernels were compiled, found in the cache, or refused.
struct Compiled {
  int compiled = 0;
  int already_there = 0;
  int failed = 0;
  std::optional<Error> first_failure{};  // toolchain; set if any failed

  bool ok() const { return failed == 0; }
};

/// Compiles the kernels that prepare() of these plans would compile, in Options::jobs threads; equal kernels
/// once. A kernel that NVRTC refuses is counted in `failed`. Errors: invalid_argument (the cache is
/// read-only), io (the cache cannot be written).
Result<Compiled> compile(std::span<const Plan> plans, const Options& options);
/// Compile the kernels of Quantizer::create and Norm::create. Errors: as above.
Result<Compiled> compile(std::span<const QuantizerOptions> quantizers, const Options& options);
Result<Compiled> compile(std::span<const NormOptions> norms, const Options& options);

}  // namespace sluice
