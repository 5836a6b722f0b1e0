// SPDX-License-Identifier: Apache-2.0
// Products of packed few-bit weights and tokens of 16 bits, or of e4m3 with scales:
//   D[m][n] = act(scale_x[m] * sum_k X[m][k] W[n][k] + bias[n]) + C[m][n]
// With norm_x, X is normed first. A gated product has n / 2 outputs: act of the first n / 2 times the other n
// / 2 (spec/packed.h).
//   auto device = sluice::Device::open(0, sluice::options_from_environment());
//   auto plan   = sluice::packed::plan(problem, device->info(), {}, device->records());
//   auto kernel = sluice::packed::prepare(*device, *plan);
//   auto done   = sluice::packed::launch(*kernel, {.x = x, .weights = blob, .d = d}, stream);
// sluice::Packer makes the blob (sluice/pack.h). docs/packed.md has formats, limits and error bounds.
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

/// The kernel and its config: narrow for few 16-bit tokens (kernels/narrow.cuh), wide for many
/// (kernels/wide.cuh), strip for medium numbers and for e4m3 tokens (kernels/strip.cuh).
using PackedConfig = std::variant<NarrowConfig, WideConfig, StripConfig>;

/// The value as a C++ designated initialiser with every field, as used in JIT units, logs and tests.
std::string to_string(const NarrowConfig& config);
std::string to_string(const WideConfig& config);
std::string to_string(const StripConfig& config);
std::string to_string(const PackedConfig& config);
std::string to_string(const PackedProblem& problem);

namespace packed {

struct Plan {
  PackedProblem problem{};  // row strides filled in
  PackedConfig config{};
  i64 smem_bytes = 0;      // dynamic shared memory per CTA
  i64 weight_bytes = 0;    // bytes of the blob, with scales and padding
  double stored_bits = 0;  // bits of the blob per weight
  double estimate_us = 0;  // the model's estimate, with cold L2
  PlanSource source = PlanSource::model;
  double measured_us = 0;  // from the tuning record of this choice; 0 without a record
  // True: the record and its time are for the same product without gate, residual, norm and scale of D.
  bool product_alone = false;
};

/// The part of a plan that a tuning record fixes (sluice/records.h): the fields of the config that the
/// planner chooses. Formats and epilogue follow from the problem.
struct TunedChoice {
  PackedConfig config{};
  double measured_us = 0;  // time of one launch when the record was made

  bool operator==(const TunedChoice&) const = default;
};

/// Choices that replace the planner's; fields that are not set are left to its model. The model chooses among
/// the kernels that have all the fields that are set: narrow (token_blocks to ctas), wide (tokens to
/// w_stages) and strip (tokens, strips, k_groups, parts and stages). strip is the only kernel for e4m3
/// tokens. Records are ignored once any field is set.
struct Overrides {
  std::optional<int> token_blocks{}, row_blocks{}, warps{}, stages{}, parts{}, ctas{};  // as in NarrowConfig
  std::optional<int> tokens{}, cluster_n{}, x_stages{}, w_stages{};                     // as in WideConfig
  std::optional<int> strips{}, k_groups{};                                              // as in StripConfig
  bool ignore_records = false;  // plan as if the problem had no record
  Overlap overlap{};            // for chains of launches; applied to every plan, also to one from a record

  bool operator==(const Overrides&) const = default;
};

/// Checks the problem and chooses a config: that of its record, if `records` has one that is still valid,
/// else the model's best. Pure function: the same arguments always give the same plan.
/// m, n and k are in 0 .. 2^31 - 129. ld_x and ld_d are in elements; ld_x is a multiple of 16 bytes and at
/// most 2^26 - 8 (with one token: anything). Gated: at most 128 tokens if they have 16 bits, and n a multiple
/// of 16. norm_x: at most 8 bf16 tokens. residual: 16-bit tokens, at most 64, not gated.
/// Errors: invalid_size, invalid_type (scale_x and scale_d too), invalid_stride, misaligned (ld_x),
/// invalid_config (the weight format, overrides), unsupported_arch.
Result<Plan> plan(const PackedProblem& problem, const DeviceInfo& device, const Overrides& overrides = {},
                  const RecordBook& records = shipped_records());

/// All plans that the planner's model considers, best estimate first; tuning measures these.
Result<std::vector<Plan>> candidates(const PackedProblem& problem, const DeviceInfo& device,
                                     const Overrides& overrides = {});

/// The pointers of one launch, all to device memory.
struct Args {
  const void* x = nullptr;  // m rows of k values of PackedProblem::x, ld_x elements apart; 16-byte aligned
  // the blob, Plan::weight_bytes long, 128-byte aligned; for gated products packed with PackShape::gated
  const void* weights = nullptr;
  void* d = nullptr;               // m rows of n (gated: n / 2) values of PackedProblem::d, pitch ld_d
  const void* bias = nullptr;      // n values of bias_type, if the problem has a bias
  const float* scale_x = nullptr;  // 1 or m values, as PackedProblem::scale_x says
  const float* scale_d = nullptr;  // one value; read after the PDL wait
  // With norm_x: k bf16 values, 16-byte aligned. Read before the PDL wait, as weights are: earlier launches
  // must not write them.
  const void* gamma = nullptr;
  float epsilon = 1e-5f;    // with norm_x: added to the mean of squares
  const void* c = nullptr;  // residual: m rows of n values of D's type, ld_c elements apart; may be d itself
  // For plans with an overlap: weights to prefetch into L2. prefetch: this launch's, before the PDL wait.
  // hand_off: the next launch's, after the last load.
  WarmRange prefetch{}, hand_off{};
};

using Kernel = BasicKernel<Plan>;

/// Compiles the plan's kernel, or finds it in the cache, and loads it. Checks plans that were made by hand.
/// Errors: those of plan(), toolchain, driver.
Result<Kernel> prepare(const Device& device, const Plan& plan);

/// Prepares many plans in parallel; equal configs are compiled once. Result i belongs to plan i.
std::vector<Result<Kernel>> prepare(const Device& device, std::span<const Plan> plans,
                                    const gemm::Progress& progress = {});

/// Checks the arguments and enqueues one kernel (the narrow kernel: one per 500,000 tokens or more). No
/// allocation, no synchronisation, no workspace; the stream may be capturing. The Kernel must outlive work in
/// flight and captured graphs. Results are bit-identical from run to run.
/// Succeeds without a launch if m or n is 0. With k = 0, D is act(bias) (+ C), and x and weights are not
/// read. Errors (nothing is launched): invalid_pointer, invalid_argument (epsilon), misaligned, aliasing,
/// wrong_device, driver.
Result<void> launch(const Kernel& kernel, const Args& args, Stream stream);

/// Plans (with the device's records), prepares and launches. The device keeps the kernel for the next call
/// with an equal problem. Error not_prepared: the stream is capturing and this problem's kernel is not
/// loaded; call run() once before capture.
Result<void> run(const Device& device, const PackedProblem& problem, const Args& args, Stream stream);

/// gemm::race for packed weights, starting with one plan per kernel (narrow, wide, strip).
Result<Plan> race(const Device& device, const PackedProblem& problem, int candidates = kUsualRacers);

/// The config on one line for readers, e.g. "narrow 16x64 w8 s3 p2 b1 fp16*uint4>fp16 g64 fp16".
std::string short_name(const NarrowConfig& config);
std::string short_name(const WideConfig& config);
std::string short_name(const StripConfig& config);
std::string short_name(const PackedConfig& config);
/// The problem and plan as aligned lines of text; printed by `sluice plan --weights`.
std::string describe(const Plan& plan);

}  // namespace packed
}  // namespace sluice
