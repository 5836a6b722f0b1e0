// SPDX-License-Identifier: Apache-2.0
// Products of packed few-bit weights and tokens of 16 bits, or of e4m3 with scales:
//   D[m][n] = act(scale_x[m] * sum_k X[m][k] W[n][k] + bias[n]) + C[m][n]
// With norm_x, X is normed first. Gated, D is act of the first n / 2 outputs times the other n / 2
// (spec/packed.h).
//   auto device = sluice::Device::open(0, sluice::options_from_environment());
//   auto plan   = sluice::packed::plan(problem, device->info(), {}, device->records());
//   auto kernel = sluice::packed::prepare(*device, *plan);
//   auto done   = sluice::packed::launch(*kernel, {.x = x, .weights = blob, .d = d}, stream);
// The blob comes from sluice::Packer (sluice/pack.h). docs/packed.md has formats, limits and error bounds.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/spec/packed.h>
#include <sluice/spec/strip.h>
#include <sluice/spec/wide.h>

namespace sluice {

/// The kernel and its config: few 16-bit tokens (kernels/narrow.cuh), many (kernels/wide.cuh), or numbers
/// between and e4m3 tokens (kernels/strip.cuh).
using PackedConfig = std::variant<NarrowConfig, WideConfig, StripConfig>;

/// The text of a JIT unit, a log line and a test: a C++ designated initialiser with every field.
std::string to_string(const NarrowConfig& config);
std::string to_string(const WideConfig& config);
std::string to_string(const StripConfig& config);
std::string to_string(const PackedConfig& config);
std::string to_string(const PackedProblem& problem);

namespace packed {

struct Plan {
  PackedProblem problem{};  // leading dimensions filled in
  PackedConfig config{};
  i64 smem_bytes = 0;      // dynamic shared memory of a CTA
  i64 weight_bytes = 0;    // bytes of the blob, with scales and padding
  double stored_bits = 0;  // bits of the blob for each weight
  double estimate_us = 0;  // by the model, cold L2
  PlanSource source = PlanSource::model;
  double measured_us = 0;  // from the record of this choice; 0 without one
  // The record, and its time, are of the product without gate, residual, norm and scale of D.
  bool product_alone = false;
};

/// The part of a plan that a tuning record fixes (sluice/records.h): the fields of the config that the
/// planner chooses. Formats and epilogue follow from the problem.
struct TunedChoice {
  PackedConfig config{};
  double measured_us = 0;  // one launch, when the record was made

  bool operator==(const TunedChoice&) const = default;
};

/// Fields that are set overrule the planner. Its model chooses the rest among the kernels that have all those
/// fields: narrow (token_blocks to ctas), wide (tokens to tail_parts) and strip (tokens, strips, k_groups,
/// parts and stages). strip is the only kernel for e4m3 tokens. Records are ignored once any field is set.
struct Overrides {
  std::optional<int> token_blocks{}, row_blocks{}, warps{}, stages{}, parts{}, ctas{};  // as in NarrowConfig
  std::optional<int> tokens{}, cluster_n{}, cluster_k{};                                // as in WideConfig
  std::optional<int> x_stages{}, w_stages{}, tail_parts{};                              // as in WideConfig
  std::optional<int> strips{}, k_groups{};                                              // as in StripConfig
  bool ignore_records = false;  // plan as if the problem had never been tuned
  Overlap overlap{};            // applied to the plan from any source; for chains of launches

  bool operator==(const Overrides&) const = default;
};

/// Checks the problem and picks a config: that of its record, if `records` has one that still fits, else the
/// model's best. Pure: the same arguments give the same plan everywhere.
/// m, n and k are in 0 .. 2^31 - 129. ld_x and ld_d are in elements; ld_x is a multiple of 16 bytes and at
/// most 2^26 - 8 (with one token: anything). Gated: at most 128 tokens if they have 16 bits, and n a multiple
/// of 16. norm_x: at most 8 bf16 tokens. residual: 16-bit tokens, at most 64, not gated.
/// Errors: invalid_size, invalid_type (scale_x and scale_d too), invalid_stride, misaligned (ld_x),
/// invalid_config (the weight format, overrides), unsupported_arch.
Result<Plan> plan(const PackedProblem& problem, const DeviceInfo& device, const Overrides& overrides = {},
                  const RecordBook& records = shipped_records());

/// All plans that the planner's model would consider, best estimate first; a tuner measures these.
Result<std::vector<Plan>> candidates(const PackedProblem& problem, const DeviceInfo& device,
                                     const Overrides& overrides = {});

/// The pointers of one launch, all to device memory.
struct Args {
  const void* x = nullptr;  // m rows of k values of PackedProblem::x, ld_x apart; 16-byte aligned
  // the blob, Plan::weight_bytes of it, 128-byte aligned; gated: packed as such (PackShape::gated)
  const void* weights = nullptr;
  void* d = nullptr;               // m rows of n (gated: n / 2) values of PackedProblem::d, ld_d apart
  const void* bias = nullptr;      // n values of bias_type, if the problem has a bias
  const float* scale_x = nullptr;  // 1 or m values, as PackedProblem::scale_x says
  const float* scale_d = nullptr;  // one value; read after the PDL wait
  // k bf16 values, with norm_x; 16-byte aligned. Read before the PDL wait, as weights are: no earlier launch
  // may write it.
  const void* gamma = nullptr;
  float epsilon = 1e-5f;    // with norm_x: added to the mean of squares
  const void* c = nullptr;  // m rows of n values of D's type, ld_c apart, with a residual; may be d itself
  // For plans with an overlap: ranges to prefetch into L2 before the PDL wait (this launch's weights) and
  // after the last load (the next launch's weights).
  WarmRange prefetch{}, hand_off{};
};

using Kernel = BasicKernel<Plan>;

/// Compiles (or finds in the cache) and loads the plan's kernel. A plan made by hand is checked first.
/// Errors: those of plan(), toolchain, driver.
Result<Kernel> prepare(const Device& device, const Plan& plan);

/// Prepares many plans in parallel; equal configs are compiled once. Result i belongs to plan i.
std::vector<Result<Kernel>> prepare(const Device& device, std::span<const Plan> plans,
                                    const gemm::Progress& progress = {});

/// Checks the arguments and enqueues one kernel (the narrow one: for every 500,000 tokens or more). No
/// allocation, no synchronisation, no workspace; may be captured into a graph. The Kernel must then outlive
/// the graph, as it must outlive work in flight. Every run gives the same bits.
/// m = 0 or n = 0 succeed without a launch; with k = 0 D is act(bias) (+ C), and x and weights are not read.
/// Errors (nothing is launched): invalid_pointer, invalid_argument (epsilon), misaligned, aliasing,
/// wrong_device, driver.
Result<void> launch(const Kernel& kernel, const Args& args, Stream stream);

/// plan (with the device's records) + prepare (kept by the device for the next call with an equal problem) +
/// launch. Error not_prepared: the stream is capturing and this problem's kernel is not loaded: call run()
/// once before capture.
Result<void> run(const Device& device, const PackedProblem& problem, const Args& args, Stream stream);

/// gemm::race for packed weights: of each of the three kernels one first.
Result<Plan> race(const Device& device, const PackedProblem& problem, int candidates = 3);

/// One line for people, e.g. "narrow 16x64 w8 s3 p2 b1 fp16*uint4>fp16 g64 fp16".
std::string short_name(const NarrowConfig& config);
std::string short_name(const WideConfig& config);
std::string short_name(const StripConfig& config);
std::string short_name(const PackedConfig& config);
/// The problem and plan as a few aligned lines; what `sluice plan --weights` prints.
std::string describe(const Plan& plan);

}  // namespace packed
}  // namespace sluice
