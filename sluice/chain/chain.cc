// SPDX-License-Identifier: Apache-2.0
// A plan's kernels loaded, and each step bound to its kernel, so that enqueue is a loop of launches.
#include <sluice/chain/chain.h>

#include <numeric>

#include <sluice/chain/companions.h>
#include <sluice/host/ops/norm.h>
#include <sluice/host/ops/packed.h>
#include <sluice/host/ops/quantize.h>
#include <sluice/host/text/packed_units.h>

namespace sluice {
namespace {

/// The kernels of a plan, by the indices that its steps have.
struct Kernels {
  std::vector<Result<gemm::Kernel>> products;
  std::vector<Result<packed::Kernel>> packed;
  std::vector<Result<Norm>> norms;
  std::vector<Result<Quantizer>> quantizers;
};

Kernels load(const Device& device, const ChainPlan& plan, const gemm::Progress& progress) {
  return {ops::prepare<ops::Gemm>(device, plan.products, progress),
          ops::prepare<ops::Packed>(device, plan.packed, progress),
          ops::prepare<ops::NormOp>(device, plan.norms), ops::prepare<ops::QuantizeOp>(device, plan.quantizers)};
}

/// Binds a step to its kernel, and refuses arguments that no launch would take: a chain keeps them, so it
/// refuses before its first launch, not between two.
struct Binder {
  const PlannedStep& planned;
  const Kernels& kernels;

  size_t index() const { return static_cast<size_t>(planned.plan); }
  int programmatic() const { return planned.overlap.wait != Wait::none ? 1 : 0; }

  template <class Op>
  Result<ChainLaunch> bind(const Result<typename Op::Handle>& kernel, const typename Op::Args& args) const {
    if (!kernel) return kernel.error();
    SLUICE_TRY(ops::check_args<Op>(kernel->impl(), args));
    return ChainLaunch{.launch = [kernel = *kernel, args](const WorkspaceView&, Stream stream) {
                         return ops::launch<Op>(kernel.impl(), args, stream);
                       },
                       .programmatic = programmatic()};
  }

  Result<ChainLaunch> operator()(const ProductStep& step) const {
    gemm::Args args = step.args;
    args.prefetch = planned.prefetch;
    args.hand_off = planned.hand_off;
    const Result<gemm::Kernel>& kernel = kernels.products[index()];
    Result<ChainLaunch> bound = bind<ops::Gemm>(kernel, args);
    if (!bound) return bound;
    if (kernel->plan().workspace_bytes > 0)
      bound->launch = [kernel = *kernel, args](const WorkspaceView& workspace, Stream stream) {
        return gemm::launch(kernel, ops::Gemm::with_workspace(args, workspace), stream);
      };
    // The second kernel of a split, which adds up, always waits for the first itself.
    const int sums = kernel->impl().modules.size() > 1 && args.alpha != 0.0f ? 1 : 0;
    bound->kernels += sums;
    bound->programmatic += sums;
    return bound;
  }
  Result<ChainLaunch> operator()(const PackedStep& step) const {
    packed::Args args = step.args;
    args.prefetch = planned.prefetch;
    args.hand_off = planned.hand_off;
    const Result<packed::Kernel>& kernel = kernels.packed[index()];
    Result<ChainLaunch> bound = bind<ops::Packed>(kernel, args);
    if (!bound) return bound;
    bound->kernels = ops::Packed::launches_of(kernel->plan());
    bound->programmatic *= bound->kernels;
    return bound;
  }
  Result<ChainLaunch> operator()(const NormStep& step) const {
    ops::NormOp::Args args{step.shape, step.args};
    args.args.hand_off = planned.hand_off;
    return bind<ops::NormOp>(kernels.norms[index()], args);
  }
  Result<ChainLaunch> operator()(const QuantizerStep& step) const {
    ops::QuantizeOp::Args args{step.shape, step.args};
    args.args.hand_off = planned.hand_off;
    return bind<ops::QuantizeOp>(kernels.quantizers[index()], args);
  }
  Result<ChainLaunch> operator()(const ForeignStep& step) const {
    return ChainLaunch{
        .launch = [enqueue = step.enqueue](const WorkspaceView&, Stream stream) { return enqueue(stream); },
        .kernels = step.nodes,
        .programmatic = step.programmatic_edges};
  }
};

template <class Member>
int total(const std::vector<ChainLaunch>& launches, Member member) {
  return std::accumulate(launches.begin(), launches.end(), 0,
                         [&](int sum, const ChainLaunch& launch) { return sum + launch.*member; });
}

}  // namespace

std::vector<std::string> units_of(const ChainPlan& plan, Stamping stamping) {
  std::vector<std::string> units;
  const auto add = [&](std::vector<std::string> more) {
    for (std::string& unit : more) units.push_back(std::move(unit));
  };
  for (const Plan& product : plan.products) add(gemm::units_of(product, stamping));
  for (const packed::Plan& packed : plan.packed) add(packed::units_of(packed));
  add(companion_units(plan));
  return units;
}

Result<Chain> Chain::prepare(const Device& device, const ChainPlan& plan, const gemm::Progress& progress) {
  if (const Result<void> consistent = check_chain_plan(plan); !consistent) return consistent.error();
  const Kernels kernels = load(device, plan, progress);
  auto impl = std::make_shared<Impl>(Impl{device, plan, {}});
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlannedStep& planned = plan.steps[i];
    if (!planned.launched) continue;
    Result<ChainLaunch> bound = std::visit(Binder{planned, kernels}, planned.step.work);
    if (!bound) return Error{bound.error().code, step_name(planned.step, i) + ": " + bound.error().message};
    impl->launches.push_back(*std::move(bound));
  }
  return Chain(std::move(impl));
}

Result<Chain> Chain::prepare(const Device& device, std::span<const ChainStep> steps,
                             const ChainOptions& options, const gemm::Progress& progress) {
  const Result<ChainPlan> plan = plan_chain(steps, device.info(), options, device.records());
  if (!plan) return plan.error();
  return prepare(device, *plan, progress);
}

Result<void> Chain::enqueue(Stream stream, const WorkspaceView& workspace) const {
  const i64 needed = impl_->plan.workspace_bytes;
  if (needed > 0 && (workspace.data == nullptr || workspace.bytes < needed))
    return Error{ErrorCode::workspace, "the chain needs " + std::to_string(needed) +
                                           " bytes of workspace and got " +
                                           std::to_string(workspace.data == nullptr ? 0 : workspace.bytes) +
                                           ": pass one that no other stream uses"};
  for (const ChainLaunch& step : impl_->launches)
    if (Result<void> launched = step.launch(workspace, stream); !launched) return launched;
  return {};
}

const ChainPlan& Chain::plan() const {
  return impl_->plan;
}
int Chain::kernels() const {
  return total(impl_->launches, &ChainLaunch::kernels);
}
int Chain::programmatic_edges() const {
  return total(impl_->launches, &ChainLaunch::programmatic);
}

}  // namespace sluice
