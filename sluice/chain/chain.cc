// SPDX-License-Identifier: Apache-2.0
// A plan's kernels loaded, and each step bound to its kernel, so that enqueue is a loop of launches.
#include <sluice/chain/chain.h>

#include <numeric>

#include <sluice/chain/companions.h>
#include <sluice/host/ops/companion_checks.h>
#include <sluice/host/ops/packed.h>

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
  Kernels loaded{
      gemm::prepare(device, plan.products, progress), packed::prepare(device, plan.packed, progress), {}, {}};
  for (const NormOptions& options : plan.norms) loaded.norms.push_back(Norm::create(device, options));
  for (const QuantizerOptions& q : plan.quantizers)
    loaded.quantizers.push_back(Quantizer::create(device, q.input, q.granularity, q.gate, q.overlap));
  return loaded;
}

/// The kernel for few tokens takes several launches where there are more than a grid holds.
int packed_launches(const packed::Plan& plan) {
  const auto* narrow = std::get_if<NarrowConfig>(&plan.config);
  return narrow == nullptr ? 1 : static_cast<int>(ceil_div(plan.problem.m, kMaxGridY * tile_tokens(*narrow)));
}

/// Of arguments that a chain keeps: refused before its first launch, not between two.
Result<void> check_kept(const gemm::Kernel& kernel, const gemm::Args& args) {
  if (kernel.impl().module == nullptr) return {};
  gemm::ArgRules rules = kernel.impl().rules;
  rules.operands[gemm::kWorkspace].used = false;  // enqueue is given it
  return check_values(rules, args);
}
Result<void> check_kept(const packed::Kernel& kernel, const packed::Args& args) {
  return kernel.impl().module == nullptr ? Result<void>() : check_values(kernel.impl().rules, args);
}

/// Binds a step to its kernel, and refuses arguments that no launch would take.
struct Binder {
  const PlannedStep& planned;
  const Kernels& kernels;

  size_t index() const { return static_cast<size_t>(planned.plan); }
  int programmatic() const { return planned.overlap.wait != Wait::none ? 1 : 0; }

  Result<ChainLaunch> operator()(const ProductStep& step) const {
    const Result<gemm::Kernel>& kernel = kernels.products[index()];
    if (!kernel) return kernel.error();
    gemm::Args args = step.args;
    args.prefetch = planned.prefetch;
    args.hand_off = planned.hand_off;
    if (const Result<void> kept = check_kept(*kernel, args); !kept) return kept.error();
    const bool needs_workspace = kernel->plan().workspace_bytes > 0;
    // The second kernel of a split, which adds up, always waits for the first itself.
    const int sums = kernel->impl().sum_module != nullptr && args.alpha != 0.0f ? 1 : 0;
    return ChainLaunch{
        .launch =
            [kernel = *kernel, args, needs_workspace](const WorkspaceView& workspace, Stream stream) {
              gemm::Args complete = args;
              if (needs_workspace) complete.workspace = workspace;
              return gemm::launch(kernel, complete, stream);
            },
        .kernels = 1 + sums,
        .programmatic = programmatic() + sums};
  }
  Result<ChainLaunch> operator()(const PackedStep& step) const {
    const Result<packed::Kernel>& kernel = kernels.packed[index()];
    if (!kernel) return kernel.error();
    packed::Args args = step.args;
    args.prefetch = planned.prefetch;
    args.hand_off = planned.hand_off;
    if (const Result<void> kept = check_kept(*kernel, args); !kept) return kept.error();
    const int launches = packed_launches(kernel->plan());
    return ChainLaunch{
        .launch = [kernel = *kernel, args](const WorkspaceView&,
                                           Stream stream) { return packed::launch(kernel, args, stream); },
        .kernels = launches,
        .programmatic = launches * programmatic()};
  }
  Result<ChainLaunch> operator()(const NormStep& step) const {
    const Result<Norm>& norm = kernels.norms[index()];
    if (!norm) return norm.error();
    NormArgs args = step.args;
    args.hand_off = planned.hand_off;
    if (const Result<void> kept = check_values(step.options, step.shape, args); !kept) return kept.error();
    return ChainLaunch{
        .launch = [norm = *norm, shape = step.shape, args](
                      const WorkspaceView&, Stream stream) { return norm.launch(shape, args, stream); },
        .programmatic = programmatic()};
  }
  Result<ChainLaunch> operator()(const QuantizerStep& step) const {
    const Result<Quantizer>& quantizer = kernels.quantizers[index()];
    if (!quantizer) return quantizer.error();
    QuantizeArgs args = step.args;
    args.hand_off = planned.hand_off;
    const QuantizerOptions options{step.input, step.granularity, step.gate, planned.overlap};
    if (const Result<void> kept = check_values(options, step.shape, args); !kept) return kept.error();
    return ChainLaunch{
        .launch = [quantizer = *quantizer, shape = step.shape, args](
                      const WorkspaceView&, Stream stream) { return quantizer.launch(shape, args, stream); },
        .programmatic = programmatic()};
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
