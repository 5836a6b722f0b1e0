// SPDX-License-Identifier: Apache-2.0
// The engine that all operations share. A plan is sealed (checked and completed), its units (the source texts
// that NVRTC compiles) are compiled and loaded, and the prepared kernel is launched. Each operation supplies
// an Op: a struct of types and static functions. gemm.h, norm.h, quantize.h and pack.h define one
// each; the shortest example is tests/seventh/scale.h. An Op has:
//   types     Problem (the key under which run() keeps kernels), Plan, Args (the arguments of one launch),
//             Image (the part of a launch that does not depend on Args), Handle (the public class of a
//             prepared kernel)
//   sealed    checks a plan again and returns it with all derived fields; prepare() uses only this plan
//   units     returns the plan's units; empty if there is nothing to launch
//   load      fills in Image and modules from the compiled units
//   bind      returns the operands and pointers of one call; checks everything except check_pointers' rules
//   enqueue   patches a copy of the kernel parameters and launches
// kept.h lists the functions that run() needs in addition; chain/steps/products.cc lists those that products
// need in a chain. launch() calls bind, enqueue and then cuLaunchKernelEx (driver/launch.cc), and allocates
// nothing. text/units.cc decides which kernel source a unit includes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/run/device/device_impl.h>
#include <sluice/run/device/spread.h>
#include <sluice/run/driver/launch.h>
#include <sluice/run/ops/operands.h>
#include <sluice/try.h>

namespace sluice::ops {

/// The texts of a plan's units and their cubins. An op's load() takes the modules that it launches from here.
struct Units {
  const Device& device;
  std::span<const std::string> texts;
  std::span<const Result<std::shared_ptr<const Cubin>>> cubins;

  /// Loads unit i. `most_smem`: the largest dynamic shared memory, in bytes, that a launch will ask for.
  /// `dependent`: launches use programmatic dependent launch. Errors: driver; internal if `dependent` is set
  /// but the unit's machine code does not contain griddepcontrol.wait.
  Result<std::shared_ptr<const Module>> load(size_t unit, i64 most_smem, bool dependent) const;
};

/// A prepared kernel. It is immutable, so any number of threads may launch it. It shares ownership of the
/// CUDA context and the modules, but not of the Device, which may itself keep this kernel.
template <class Op>
struct Prepared {
  typename Op::Plan plan{};
  std::shared_ptr<const PrimaryContext> primary;
  std::vector<std::shared_ptr<const Module>> modules;  // empty: there is never anything to launch
  std::string built_by;
  typename Op::Image image{};

  const DriverApi& api() const { return primary->api(); }
};

/// Result of bind() for an op whose operand table is part of the prepared kernel.
struct BoundCall {
  const Operands& operands;
  Pointers pointers{};
  bool nothing = false;  // true: there is nothing to launch
};
/// Result of bind() for an op whose shape is an argument of each call. `shape` has its strides filled in.
template <class Shape>
struct ShapedCall {
  Shape shape{};
  Operands operands{};
  Pointers pointers{};
  bool nothing = false;
};

/// A launch before spread_ctas() adjusts its shape. `module` is an index into Prepared::modules.
struct Spread {
  size_t module;
  LaunchShape shape;
};

/// The common part of ops whose plan is just their options, and whose shape is an argument of each call.
/// Their bind(plan, args) needs no prepared kernel.
template <class Op, class Options>
struct ShapedOp {
  using Problem = Options;
  using Plan = Options;
  static constexpr bool kServesRows = false;

  static Result<Plan> plan_for(const Device&, const Problem& problem) { return problem; }
  static bool is_empty(const Problem&) { return false; }
  static const Problem& key_of(const Problem& problem) { return problem; }
  /// Loads all units, so that each can be launched with the plan's overlap.
  static Result<void> load_all(const Units& units, Prepared<Op>& kernel) {
    const Overlap& overlap = kernel.plan.overlap;
    for (size_t i = 0; i < units.texts.size(); ++i) {
      SLUICE_TAKE(const auto module, units.load(i, most_smem_bytes(overlap, 0), overlap.wait != Wait::none));
      kernel.modules.push_back(module);
    }
    return {};
  }
  /// Launches one module with the plan's overlap, and adjusts the launch so that CTAs spread over the SMs
  /// (device/spread.h).
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

/// Prepares one kernel per plan. All units are compiled in parallel; equal units are compiled once. Result i
/// belongs to plan i.
template <class Op>
std::vector<Result<typename Op::Handle>> prepare(const Device& device,
                                                 std::span<const typename Op::Plan> plans,
                                                 const gemm::Progress& progress = {}) {
  std::vector<Result<typename Op::Plan>> sealed;
  std::vector<std::string> texts;  // the units of all plans, in order
  std::vector<size_t> ends;        // index into `texts` where each plan's units end
  for (const typename Op::Plan& plan : plans) {
    sealed.push_back(Op::sealed(plan, device.info()));
    if (sealed.back())
      for (std::string& unit : Op::units(*sealed.back())) texts.push_back(std::move(unit));
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

/// Makes the checks of a launch that need only the arguments' values: all but the workspace, the context and
/// the owner of the memory. A chain calls this before its first launch, when it has no workspace yet.
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

/// launch() for a caller that has entered the kernel's context.
template <class Op>
Result<void> launch_here(const Prepared<Op>& kernel, const typename Op::Args& args, Stream stream) {
  if (kernel.modules.empty()) return {};
  const auto call = Op::bind(kernel, args);
  if (!call) return call.error();
  if (call->nothing) return {};
  SLUICE_TRY(check_pointers(call->operands, call->pointers));
  SLUICE_TRY(check_owners(*kernel.primary, call->operands, call->pointers));
  return Op::enqueue(kernel, *call, args, stream);
}

template <class Op>
Result<void> launch(const Prepared<Op>& kernel, const typename Op::Args& args, Stream stream) {
  if (kernel.modules.empty()) return {};
  SLUICE_TRY(check_context(*kernel.primary));
  const ContextScope scope(*kernel.primary);
  SLUICE_TRY(scope.entered());
  return launch_here(kernel, args, stream);
}

}  // namespace sluice::ops
