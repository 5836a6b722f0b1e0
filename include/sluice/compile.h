// SPDX-License-Identifier: Apache-2.0
// Compiling ahead of time: fills the kernel cache of Options::cache_dir. Needs NVRTC, and neither a GPU nor a
// driver: a plan for DeviceInfo{} (an H200) runs on any Hopper GPU.
//   const auto plan = sluice::gemm::plan(problem, sluice::DeviceInfo{});
//   const auto done = sluice::compile({&*plan, 1}, sluice::options_from_environment());
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/experts.h>
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
/// Compile the kernels of Quantizer::create, Norm::create, Router::create and Combiner::create. Errors: as
/// above.
Result<Compiled> compile(std::span<const QuantizerOptions> quantizers, const Options& options);
Result<Compiled> compile(std::span<const NormOptions> norms, const Options& options);
Result<Compiled> compile(std::span<const RouteOptions> routers, const Options& options);
Result<Compiled> compile(std::span<const CombineOptions> combiners, const Options& options);

// ---- kernels as texts ----
/// A unit is the source text of one kernel. The units of a plan, in the order of its launches; none if D is
/// empty.
namespace gemm {
std::vector<std::string> units_of(const Plan& plan);
}
/// The unit that compares results in races of plans (gemm::race).
std::string race_unit();

/// Called after each kernel, one call at a time. `total` counts different units.
using CompileProgress = std::function<void(int done, int total)>;
/// Compiles units into the cache of `options`, with `jobs` threads; 0: Options::jobs. Errors: as above.
Result<Compiled> compile_units(std::span<const std::string> units, const Options& options, int jobs = 0,
                               const CompileProgress& progress = {});

/// A kernel from the cache, or from NVRTC. The compiler's statistics are stored with it.
struct BuiltKernel {
  bool compiled = false;  // by this call, and not found in the cache
  std::string compiler;   // "NVRTC 13.0.88"
  double compile_seconds = 0;
  int registers = 0;  // per thread
  int spill_bytes = 0;
  i64 bytes = 0;             // size of the cubin
  std::string not_stored{};  // why a kernel that was compiled is not on disk; "" if it is
};
/// Finds or compiles one unit, in the cache of `options` or in the device's. Error toolchain: no NVRTC, or it
/// refused the text.
Result<BuiltKernel> build_unit(const std::string& unit, const Options& options);
Result<BuiltKernel> build_unit(const std::string& unit, const Device& device);

}  // namespace sluice
