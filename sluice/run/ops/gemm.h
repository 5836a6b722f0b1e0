// SPDX-License-Identifier: Apache-2.0
// The product as an operation (engine.h): its operand table, its kernel parameters and its launch. packed.h
// has the parts of products with packed weights.
#pragma once

#include <sluice/compile.h>
#include <sluice/plan/dense/problem_checks.h>
#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/run/ops/conv_params.h>
#include <sluice/run/ops/kept.h>
#include <sluice/run/ops/packed.h>
#include <sluice/spec/params.h>

namespace sluice {
namespace gemm {

/// The order of the operand table: that of Args::names, then the workspace.
enum Index {
  kA,
  kB,
  kC,
  kD,
  kBias,
  kScaleA,
  kScaleB,
  kScaleD,
  kGamma,
  kGroups,
  kScaleOut,
  kRowFactors,
  kWorkspace,
  kOperandCount
};
inline constexpr int kNamed = kWorkspace;  // operands that a caller may name
static_assert(kOperandCount <= Operands::kMost);

/// Returns the operand table. `store`: how the plan writes D, which decides D's alignment. `workspace`: the
/// plan's workspace in bytes. Error invalid_size: an operand of more than 2^63 bytes.
Result<Operands> operands_of(const Problem& problem, StorePath store = StorePath::direct, i64 workspace = 0);
/// Returns a launch's pointers. With alpha = 0, A, B and the workspace are skipped; with beta = 0, C is.
Pointers pointers_of(const Args& args);
/// Returns arguments whose scalars (alpha, beta) make a launch read every operand of the problem.
Args args_at(const Problem& problem, const Pointers& pointers);

/// Adds to an error of planning which arrays A, B and D are, if the caller has named them (Args::names).
/// `own`: the names that the error uses.
Error with_names(Error error, const ConvNames& own, const char* const* names);

/// Checks a plan, which the caller may have changed by hand, and fills in all derived fields. The problem
/// must pass the planner's checks, and the configuration must fit it. The errors are those of plan().
Result<Plan> sealed(const Plan& plan, const DeviceInfo& device);

/// Returns how many kernels one launch of the plan enqueues, without the one that adds up slices.
int launches_of(const Plan& plan);

}  // namespace gemm

namespace ops {

class RaceMemory;

struct Gemm {
  using Problem = sluice::Problem;
  using Plan = sluice::Plan;
  using Args = gemm::Args;
  using Handle = gemm::Kernel;
  struct Image {
    Operands operands;
    LaunchShape shape;
    LaunchShape sum_shape;  // the shape of modules[1], which adds up the slices (Combine::separate)
    bool has_tail_a = false, has_tail_b = false;  // whether the kernel's A and B have tail maps
    ConvImage conv;
    alignas(CUtensorMap) packed::Params packed{};  // packed weights
    alignas(CUtensorMap) PhasedParams params{};    // complete except for pointers, alpha and beta
  };

  using Overrides = PlanOverrides;
  using Choice = TunedChoice;

  static Result<Problem> check(const Problem& problem) { return check_problem(problem); }
  static Result<Plan> plan(const Problem& problem, const DeviceInfo& device, const Overrides& overrides,
                           const RecordBook& records) {
    return gemm::plan(problem, device, overrides, records);
  }
  static Result<Plan> plan_for(const Device& device, const Problem& problem, const Args& args = {}) {
    const Result<Plan> plan =
        gemm::plan(problem, device.info(), {.workspace_limit = workspace_limit(args)}, device.records());
    return plan ? plan : gemm::with_names(plan.error(), names_of(problem.conv), args.names);
  }
  static Choice choice_of(const Plan& plan) { return sluice::choice_of(plan); }
  static Overlap& overlap_of(KernelConfig& config) { return config.overlap; }
  static Overlap overlap_of(const KernelConfig& config) { return config.overlap; }
  static double estimate_us(const Plan& plan) { return plan.estimate.total_us; }
  static std::string short_name(const KernelConfig& config) { return sluice::short_name(config); }
  static Result<Operands> operands_of(const Problem& problem) { return gemm::operands_of(problem); }
  static Pointers pointers_of(const Args& args) { return gemm::pointers_of(args); }
  static Result<Plan> sealed(const Plan& plan, const DeviceInfo& device) {
    return gemm::sealed(plan, device);
  }
  static Result<std::vector<Plan>> candidates(const Problem& problem, const DeviceInfo& device) {
    return gemm::candidates(problem, device);
  }
  /// Sums that the tensor cores keep in fp8 products lose up to 2^-13 of themselves per instruction.
  static double sums_share(const Problem& problem) {
    const bool loses = is_fp8(problem.a.type) && !is_promoted(problem);
    return loses ? static_cast<double>(problem.k) / mma_k(problem.a.type) / 8192 : 0;
  }
  /// Writes the table of a race: groups of equal sizes.
  static Result<void> write_table(const Problem& problem, const RaceMemory& memory,
                                  const StreamHandle& stream);
  static int family_of(const Plan& plan) { return static_cast<int>(plan.config.schedule); }
  static i64 tile_family_of(const Plan& plan) {
    const KernelConfig& config = plan.config;
    const i64 tile = i64{config.tile.m} << 16 | config.tile.n;
    return (i64{family_of(plan)} << 32 | tile) * 2 + (config.d_major == Major::mn);
  }
  static Args args_at(const Problem& problem, const Pointers& pointers) {
    return gemm::args_at(problem, pointers);
  }
  static std::vector<std::string> units(const Plan& plan);
  static Result<void> load(const Units& units, Prepared<Gemm>& kernel);
  static Result<BoundCall> bind(const Prepared<Gemm>& kernel, const Args& args);
  static Result<void> enqueue(const Prepared<Gemm>& kernel, const BoundCall& call, const Args& args,
                              Stream stream);

  static bool is_empty(const Problem& problem) { return sluice::is_empty(problem); }
  static Problem key_of(const Problem& problem) { return sluice::key_of(problem); }
  static Problem at_addresses(const Problem& problem, const Args& args) {
    return sluice::at_addresses(problem, args);
  }
  static std::string missing(const Problem& problem) {
    return "no kernel is ready for " + to_string(problem);
  }
  static i64 workspace_for(const Prepared<Gemm>& kernel, const Args& args) {
    return args.alpha == 0.0f || args.workspace.data != nullptr ? 0 : kernel.plan.workspace_bytes;
  }
  /// The most workspace that a call's plan may need.
  static i64 workspace_limit(const Args& args) {
    return args.workspace.data == nullptr ? kWorkspaceLimit : std::min(args.workspace.bytes, kWorkspaceLimit);
  }
  static Args with_workspace(Args args, const WorkspaceView& workspace) {
    args.workspace = workspace;
    return args;
  }
  static constexpr bool kServesRows = true;
  using RowTable = gemm::RowTable;
  static Result<RowTable> plan_rows(const Device& device, const Problem& problem, RowRange rows);
  static Result<Plan> plan_of_row(const RowTable& table, i64 m, const DeviceInfo& device);
};

}  // namespace ops

template <>
struct BasicKernel<Plan>::Impl : ops::Prepared<ops::Gemm> {};

}  // namespace sluice
