// SPDX-License-Identifier: Apache-2.0
// The product with packed weights as an operation (engine.h): its operand table, the parameters of its three
// kernels, and their launches.
#pragma once

#include <variant>

#include <sluice/host/ops/kept.h>
#include <sluice/host/planner/dense/tuned_choice.h>
#include <sluice/host/planner/packed/packed_problem_checks.h>
#include <sluice/packed.h>

namespace sluice {
namespace packed {

enum Index { kX, kWeights, kBias, kScaleX, kScaleD, kGamma, kC, kD, kOperandCount };
static_assert(kOperandCount <= Operands::kMost);

/// Returns the operand table. Error invalid_size: an operand of more than 2^63 bytes.
Result<Operands> operands_of(const PackedProblem& problem);
Pointers pointers_of(const Args& args);
/// Returns arguments with these pointers.
Args args_at(const Pointers& pointers);

}  // namespace packed

namespace ops {

struct Packed {
  using Problem = PackedProblem;
  using Plan = packed::Plan;
  using Args = packed::Args;
  using Handle = packed::Kernel;
  struct Image {
    Operands operands;
    LaunchShape shape;  // narrow kernel: the shape of a launch with as many tokens as one grid can hold
    /// Complete except for pointers (also those in tensor maps) and fields that depend on their alignment. In
    /// the narrow kernel's, m is missing too.
    alignas(CUtensorMap) std::variant<NarrowParams, WideParams, StripParams> params{};
  };

  using Overrides = packed::Overrides;
  using Choice = packed::TunedChoice;

  static Result<Problem> check(const Problem& problem) { return packed::check_problem(problem); }
  static Result<Plan> plan(const Problem& problem, const DeviceInfo& device, const Overrides& overrides,
                           const RecordBook& records) {
    return packed::plan(problem, device, overrides, records);
  }
  static Result<Plan> plan_for(const Device& device, const Problem& problem) {
    return packed::plan(problem, device.info(), {}, device.records());
  }
  static Choice choice_of(const Plan& plan) { return packed::choice_of(plan); }
  static Overrides overrides_of(const Choice& choice) { return packed::overrides_of(choice); }
  template <class Config>
  static auto& overlap_of(Config& config) {
    return std::visit(
        [](auto& kind) -> auto& { return kind.overlap; }, config);
  }
  static double estimate_us(const Plan& plan) { return plan.estimate_us; }
  static std::string short_name(const PackedConfig& config) { return packed::short_name(config); }
  static Result<Operands> operands_of(const Problem& problem) { return packed::operands_of(problem); }
  static Pointers pointers_of(const Args& args) { return packed::pointers_of(args); }
  static Result<Plan> sealed(const Plan& plan, const DeviceInfo& device) {
    return packed::sealed(plan, device);
  }
  static Result<std::vector<Plan>> candidates(const Problem& problem, const DeviceInfo& device) {
    return packed::candidates(problem, device);
  }
  /// See Gemm::sums_share().
  static double sums_share(const Problem& problem) {
    return is_fp8(problem.x) ? static_cast<double>(problem.k) / mma_k(problem.x) / 8192 : 0;
  }
  static int family_of(const Plan& plan) { return static_cast<int>(plan.config.index()); }
  static Args args_at(const Problem&, const Pointers& pointers) { return packed::args_at(pointers); }
  static std::vector<std::string> units(const Plan& plan);
  static Result<void> load(const Units& units, Prepared<Packed>& kernel);
  static Result<BoundCall> bind(const Prepared<Packed>& kernel, const Args& args);
  static Result<void> enqueue(const Prepared<Packed>& kernel, const BoundCall& call, const Args& args,
                              Stream stream);
  /// Returns how many kernels one launch() enqueues: more than one only for the narrow kernel, if the tokens
  /// do not fit in one grid.
  static int launches_of(const Plan& plan);

  static bool is_empty(const Problem& problem) { return packed::is_empty(problem); }
  static Problem key_of(const Problem& problem) { return sluice::key_of(problem); }
  static std::string missing(const Problem& problem) {
    return "no kernel is ready for " + to_string(problem);
  }
  static constexpr bool kServesRows = true;
  using RowTable = packed::RowTable;
  static Result<RowTable> plan_rows(const Device& device, const Problem& problem, RowRange rows);
  static Result<Plan> plan_of_row(const RowTable& table, i64 m, const DeviceInfo& device);
};

}  // namespace ops

template <>
struct BasicKernel<packed::Plan>::Impl : ops::Prepared<ops::Packed> {};

}  // namespace sluice
