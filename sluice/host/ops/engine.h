// SPDX-License-Identifier: Apache-2.0
// The engine of all operations: a plan is sealed, its units are compiled and loaded, and a prepared kernel is
// launched, kept and lent a workspace. It is written once; what differs is an Op, a struct of pure functions
// that each file of this room has one of:
//   types     Problem (what kernels are kept by), Plan, Args (of one launch), Image (what of a launch does
//   not
//             depend on Args), Handle (the public class of a prepared kernel)
//   plan_for  the plan that run() makes of a problem
//   sealed    the plan, checked and with all that follows from it; the only place that does either
//   units     the texts that NVRTC compiles for it; none: there is nothing to launch
//   load      fills in Image and modules from the compiled units
//   bind      the operands of one call and their pointers, checked as far as `check_pointers` does not
//   enqueue   patches a copy of the parameters and launches
// What run() and sessions ask besides is in kept.h. launch() allocates nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/host/device/device_impl.h>
#include <sluice/host/device/spread.h>
#include <sluice/host/driver/launch.h>
#include <sluice/host/jit/source.h>
#include <sluice/host/ops/operands.h>
#include <sluice/try.h>

namespace sluice::ops {

/// The texts of a plan's units with their cubins, of which an op loads what its launches need.
struct Units {
  const Device& device;
  std::span<const std::string> texts;
  std::span<const Result<std::shared_ptr<const Cubin>>> cubins;

  /// `most_smem`: dynamic, that a launch asks for. Errors: driver; internal (`dependent`, and its code does
  /// not wait).
  Result<std::shared_ptr<const Module>> load(size_t unit, i64 most_smem, bool dependent) const;
};

/// What a prepared kernel holds: immutable, so any number of threads may launch it. It does not own the
/// Device, whose kept kernels it may be one of, only the driver's context and its modules.
template <class Op>
struct Prepared {
  typename Op::Plan plan{};
  std::shared_ptr<const PrimaryContext> primary;
  std::vector<std::shared_ptr<const Module>> modules;  // empty: nothing is ever launched
  std::string built_by;
  typename Op::Image image{};

  const DriverApi& api() const { return primary->api(); }
};

/// What bind() returns for an op whose table is the prepared kernel's.
struct BoundCall {
  const Operands& operands;
  Pointers pointers{};
  bool nothing = false;  // to launch
};
/// The same for one whose shapes come with the call; `shape` has its strides filled in.
template <class Shape>
struct ShapedCall {
  Shape shape{};
  Operands operands{};
  Pointers pointers{};
  bool nothing = false;
};

/// A launch before its CTAs are spread.
struct Spread {
  size_t module;
  LaunchShape shape;
};

/// What an op has in common whose plan is its options, and whose shapes come with each call:
/// bind(plan, args) needs no kernel.
template <class Op, class Options>
struct ShapedOp {
  using Problem = Options;
  using Plan = Options;
  static constexpr bool kServesRows = false;

  static Result<Plan> plan_for(const Device&, const Problem& problem) { return problem; }
  static bool is_empty(const Problem&) { return false; }
  static const Problem& key_of(const Problem& problem) { return problem; }
  /// Loads all units, each for launches with the plan's overlap.
  static Result<void> load_all(const Units& units, Prepared<Op>& kernel) {
    const Overlap& overlap = kernel.plan.overlap;
    for (size_t i = 0; i < units.texts.size(); ++i) {
      SLUICE_TAKE(const auto module, units.load(i, most_smem_bytes(overlap, 0), overlap.wait != Wait::none));
      kernel.modules.push_back(module);
    }
    return {};
  }
  /// Launches a module with the plan's overlap, its CTAs spread as that asks for.
  template <class Params>
  static Result<void> launch_spread(const Prepared<Op>& kernel, Spread launch, const Params& params,
                                    Stream stream) {
    const Module& module = *kernel.modules[launch.module];
    launch.shape.dependent = kernel.plan.overlap.wait != Wait::none;
    spread_ctas(kernel.plan.overlap, module.registers(), kernel.image.device, launch.shape);
    return launch_kernel(kernel.api(), module.function(), launch.shape, &params, stream);
  }
  template <class Args>
  static auto bind(const Prepared<Op>& kernel, const Args& args) {
    return Op::bind(kernel.plan, args);
  }
};

template <class Op>
Result<typename Op::Handle> finish(const Result<typename Op::Plan>& plan, const Units& units) {
  if (!plan) return plan.error();
  for (const auto& cubin : units.cubins)
    if (!cubin) return cubin.error();
  auto impl = std::make_shared<typename Op::Handle::Impl>();
  impl->plan = *plan;
  impl->primary = units.device.impl().primary;
  if (!units.texts.empty()) {
    impl->built_by = (*units.cubins[0])->report.compiler;
    const ContextScope scope(*impl->primary);  // encoding a tensor map needs a current context
    SLUICE_TRY(scope.entered());
    SLUICE_TRY(Op::load(units, *impl));
  }
  return typename Op::Handle(std::move(impl));
}

/// All plans' units are compiled in parallel, equal ones once.
template <class Op>
std::vector<Result<typename Op::Handle>> prepare(const Device& device,
                                                 std::span<const typename Op::Plan> plans,
                                                 const gemm::Progress& progress = {}) {
  std::vector<Result<typename Op::Plan>> sealed;
  std::vector<std::string> texts;  // of all plans, in order
  std::vector<size_t> ends;        // in `texts`, of each plan's
  for (const typename Op::Plan& plan : plans) {
    sealed.push_back(Op::sealed(plan, device.info()));
    if (sealed.back())
      for (std::string& unit : Op::units(*sealed.back(), stamping_of(device.options())))
        texts.push_back(std::move(unit));
    ends.push_back(texts.size());
  }
  const auto cubins = device.impl().cache.get_all(texts, device.options().jobs, progress);
  std::vector<Result<typename Op::Handle>> kernels;
  kernels.reserve(plans.size());
  size_t begin = 0;
  for (size_t i = 0; i < sealed.size(); begin = ends[i++]) {
    const size_t count = ends[i] - begin;
    kernels.push_back(finish<Op>(sealed[i], {device, std::span(texts).subspan(begin, count),
                                             std::span(cubins).subspan(begin, count)}));
  }
  return kernels;
}

template <class Op>
Result<typename Op::Handle> prepare(const Device& device, const typename Op::Plan& plan) {
  return std::move(prepare<Op>(device, std::span(&plan, 1)).front());
}

/// All that a launch refuses by value alone. A chain asks before its first launch, when it has no workspace
/// yet.
template <class Op>
Result<void> check_args(const Prepared<Op>& kernel, const typename Op::Args& args) {
  if (kernel.modules.empty()) return {};
  auto call = Op::bind(kernel, args);
  if (!call) return call.error();
  if (call->nothing) return {};
  for (int i = 0; i < call->operands.size(); ++i)
    call->pointers.skip_if(call->operands[i].role == Role::scratch, i);
  return check_pointers(call->operands, call->pointers);
}

template <class Op>
Result<void> launch(const Prepared<Op>& kernel, const typename Op::Args& args, Stream stream) {
  if (kernel.modules.empty()) return {};
  const auto call = Op::bind(kernel, args);
  if (!call) return call.error();
  if (call->nothing) return {};
  SLUICE_TRY(check_pointers(call->operands, call->pointers));
  SLUICE_TRY(check_context(*kernel.primary));
  const ContextScope scope(*kernel.primary);
  SLUICE_TRY(scope.entered());
  SLUICE_TRY(check_owners(*kernel.primary, call->operands, call->pointers));
  return Op::enqueue(kernel, *call, args, stream);
}

}  // namespace sluice::ops
