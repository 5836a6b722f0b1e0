// SPDX-License-Identifier: Apache-2.0
// Plan -> Kernel -> launch of packed products, and run, which does all three. prepare does everything that
// takes time, so that launch is a few checks and one short driver call.
#include <sluice/host/ops/packed.h>

#include <algorithm>

#include <sluice/host/device/capture.h>
#include <sluice/host/device/spread.h>
#include <sluice/host/planner/packed/packed_problem_checks.h>

namespace sluice {

std::size_t ProblemHash::operator()(const PackedProblem& p) const {
  const WeightFormat& w = p.weights;
  return hash_of({p.m,
                  p.n,
                  p.k,
                  p.ld_x,
                  p.ld_d,
                  static_cast<i64>(p.x),
                  static_cast<i64>(p.d),
                  static_cast<i64>(p.scale_x),
                  static_cast<i64>(w.type),
                  w.group,
                  static_cast<i64>(w.scale),
                  static_cast<i64>(w.zero),
                  static_cast<i64>(w.order),
                  static_cast<i64>(p.bias),
                  static_cast<i64>(p.bias_type),
                  static_cast<i64>(p.activation),
                  p.gated,
                  static_cast<i64>(p.scale_d),
                  p.norm_x,
                  p.residual,
                  p.ld_c});
}

namespace packed {
namespace {

Kernel empty_kernel(const Device& device, const Plan& plan) {
  auto impl = std::make_shared<Kernel::Impl>();
  impl->plan = plan;
  impl->primary = device.impl().primary;
  return Kernel(std::move(impl));
}

Result<Kernel> make_kernel(const Device& device, const Plan& plan, const std::string& unit,
                           const Cubin& cubin) {
  Result<ArgRules> rules = argument_rules(plan.problem);
  if (!rules) return rules.error();
  auto impl = std::make_shared<Kernel::Impl>();
  impl->plan = plan;
  impl->primary = device.impl().primary;
  impl->built_by = cubin.report.compiler;
  impl->rules = *rules;
  const ContextScope scope(*impl->primary);  // encoding a tensor map needs a current context
  if (Result<void> entered = scope.entered(); !entered) return entered.error();
  if (Result<void> filled =
          std::visit([&](const auto& config) { return fill(device, config, *impl); }, plan.config);
      !filled)
    return filled.error();
  LaunchShape& shape = impl->shape;
  shape.smem_bytes = static_cast<u32>(plan.smem_bytes);
  const Overlap overlap = std::visit([](const auto& config) { return config.overlap; }, plan.config);
  Result<std::shared_ptr<const Module>> module =
      device.impl().load_cubin(unit, cubin, most_smem_bytes(overlap, plan.smem_bytes));
  if (!module) return module.error();
  spread_ctas(overlap, (*module)->registers(), device.info(), shape);
  impl->module = *std::move(module);
  if (shape.dependent)
    if (Result<void> waits = impl->module->check_waits(); !waits) return waits.error();
  return Kernel(std::move(impl));
}

Result<Kernel> prepare_for_run(const Device& device, const PackedProblem& problem, Stream stream) {
  if (std::optional<Kernel> kernel = kernel_of_rows(device, problem)) return *std::move(kernel);
  const Result<Plan> planned = plan(problem, device.info(), {}, device.records());
  if (!planned) return planned.error();
  if (!is_empty(problem))
    if (Result<void> allowed = refuse_capture(
            device, stream,
            "no kernel is loaded for " + to_string(problem) + ": run this problem once before the capture");
        !allowed)
      return allowed.error();
  return prepare(device, *planned);
}

}  // namespace

std::vector<std::shared_ptr<const Module>> modules_of(const Kernel& kernel) {
  if (kernel.impl().module == nullptr) return {};
  return {kernel.impl().module};
}

const Plan& Kernel::plan() const {
  return impl_->plan;
}

int Kernel::registers() const {
  return impl_->module != nullptr ? impl_->module->registers() : 0;
}

std::string Kernel::built_by() const {
  return impl_->built_by;
}

Result<Kernel> prepare(const Device& device, const Plan& plan) {
  return std::move(prepare(device, std::span(&plan, 1)).front());
}

std::vector<Result<Kernel>> prepare(const Device& device, std::span<const Plan> plans,
                                    const gemm::Progress& progress) {
  std::vector<Result<Plan>> checked;
  std::vector<std::string> texts;
  for (const Plan& plan : plans) {
    checked.push_back(check_plan(plan, device.info()));
    if (checked.back())
      for (std::string& unit : units_of(*checked.back())) texts.push_back(std::move(unit));
  }
  const auto cubins = device.impl().cache.get_all(texts, device.options().jobs, progress);
  std::vector<Result<Kernel>> kernels;
  kernels.reserve(plans.size());
  size_t next = 0;  // in `texts`
  for (const Result<Plan>& plan : checked) {
    if (!plan) {
      kernels.push_back(plan.error());
    } else if (is_empty(plan->problem)) {
      kernels.push_back(empty_kernel(device, *plan));
    } else {
      const size_t unit = next++;
      if (cubins[unit])
        kernels.push_back(make_kernel(device, *plan, texts[unit], **cubins[unit]));
      else
        kernels.push_back(cubins[unit].error());
    }
  }
  return kernels;
}

Result<void> launch(const Kernel& kernel, const Args& args, Stream stream) {
  const Kernel::Impl& impl = kernel.impl();
  if (impl.module == nullptr) return {};
  if (Result<void> values = check_values(impl.rules, args); !values) return values;
  if (Result<void> context = check_context(*impl.primary); !context) return context;
  const ContextScope scope(*impl.primary);
  if (Result<void> entered = scope.entered(); !entered) return entered;
  if (Result<void> memory = check_memory(*impl.primary, impl.rules, args); !memory) return memory;

  return std::visit([&](const auto& config) { return enqueue(impl, config, args, stream); },
                    impl.plan.config);
}

Result<void> run(const Device& device, const PackedProblem& problem, const Args& args, Stream stream) {
  const Result<Kernel> kernel =
      device.impl().prepared_by_packed.get(problem, [&] { return prepare_for_run(device, problem, stream); });
  if (!kernel) return kernel.error();
  return launch(*kernel, args, stream);
}

}  // namespace packed
}  // namespace sluice
