// SPDX-License-Identifier: Apache-2.0
// Dense products: their weights are B, scale_b and bias, and a share of B is the same of each of its rows. A
// product takes as long as its slowest CTA, so the head of B, all of it for some CTAs and none for the others,
// would buy nothing (docs/findings/chains.md).
#include <algorithm>

#include <sluice/chain/steps/kinds.h>
#include <sluice/chain/steps/products.h>
#include <sluice/host/ops/gemm.h>
#include <sluice/host/planner/dense/cluster_grid.h>
#include <sluice/host/planner/dense/problem_checks.h>
#include <sluice/host/planner/dense/tuned_choice.h>
#include <sluice/spec/plain.h>
#include <sluice/spec/smem_layout.h>
#include <sluice/spec/validate.h>

namespace sluice {
namespace {

/// Fewer stages until the CTA is small enough.
Result<void> shrink(Plan& plan, const ChainOptions& options) {
  KernelConfig& c = plan.config;
  const KernelConfig before = c;
  if (options.most_stages > 0) c.stages = std::min(c.stages, options.most_stages);
  if (options.smem_limit > 0)
    while (smem_bytes(c) > options.smem_limit && c.stages > 1) --c.stages;
  if (c.stages == before.stages) return {};
  if (const char* rule = validate(c); rule != nullptr || c.stages < 2)
    return Error{ErrorCode::invalid_config,
                 short_name(before) + " cannot have " + std::to_string(c.stages) +
                     " stages, which smem_limit = " + std::to_string(options.smem_limit) +
                     " and most_stages = " + std::to_string(options.most_stages) + " ask for" +
                     (rule != nullptr ? std::string(" (") + rule + ")" : "") +
                     ": choose a smaller tile in the step's overrides, or a larger limit"};
  plan.smem_bytes = smem_bytes(c);
  plan.measured_us = 0;  // that was another kernel's
  return {};
}

/// B as rows that lie apart: of n, or of k where it is MN-major. Of a batch with gaps, the first matrix.
struct RowsOfB {
  const void* data = nullptr;
  i64 rows = 0, bytes = 0, stride = 0;
};
RowsOfB rows_of_b(const ProductStep& step) {
  const Problem p = with_strides(step.problem);
  const i64 outer = outer_extent(p.b, p.n, p.k), inner = inner_extent(p.b, p.n, p.k);
  const i64 size = bytes_of(p.b.type), stride = p.b.ld * size;
  const bool gaps = p.batch > 1 && p.b.batch_stride != outer * p.b.ld;
  return {step.args.b, gaps ? outer : p.batch * outer, inner * size, stride};
}

class ProductOfChain : public ProductOf<ops::Gemm, ProductStep> {
 public:
  using ProductOf::ProductOf;

  Result<void> check(const ChainStep& step) const override {
    if (step_.overrides.overlap != Overlap{})
      return refused("PlanOverrides::overlap is the chain's to set: say it in ChainStep::overlap");
    if (step_.args.workspace.data != nullptr)
      return refused("Args::workspace is the chain's to set: give it to enqueue");
    if (step_.args.prefetch.bytes != 0 || step_.args.hand_off.bytes != 0)
      return refused(
          "Args::prefetch and hand_off are the chain's to set: say hand_off_bytes and prefetch_bytes");
    if (step_.overrides.combine == Combine::separate && step.overlap && overlaps(*step.overlap))
      return refused(
          "its parts are added up by a second kernel, which overlaps with nobody: leave ChainStep::overlap "
          "out, or ask for another combine");
    return {};
  }
  bool is_launched() const override {
    return !gemm::is_empty(step_.problem) && !leaves_d(step_.problem, step_.args.alpha);
  }
  Result<Operands> operands() const override { return gemm::operands_of(step_.problem); }
  Pointers pointers() const override { return gemm::pointers_of(step_.args); }

  WarmRange share_of_weights(i64 bytes, const SkippedK& skip) const override {
    bytes = std::min(bytes, main_weights(*this).bytes);
    if (bytes <= 0) return {};
    const RowsOfB b = rows_of_b(step_);
    // The parts of a row are equal only roughly, and rows of them only where nothing lies between two rows.
    const i64 parts = b.stride == b.bytes && b.bytes % skip.parts == 0 ? skip.parts : 1;
    const i64 whole = b.bytes / parts, head = step_.problem.b.major == Major::k ? skip.bytes : 0;
    if (head >= whole) return {};
    const i64 part = whole - head;
    if (bytes < part) return {static_cast<const u8*>(b.data) + head, bytes};
    return spread_rows(static_cast<const u8*>(b.data) + head, part, b.stride / parts, b.rows * parts,
                       bytes / part);
  }
  /// Nothing that counts where CTAs of a second wave, or second tiles of a CTA, find their rings empty.
  SkippedK ring(const StepPlan& plan, const DeviceInfo& device) const override {
    const Plan& product = *plan.get<Plan>();
    const KernelConfig& c = product.config;
    if (c.overlap.wait != Wait::weights_first) return {};
    const Problem p = product_of(product.problem, c);
    const TileGrid grid = tile_grid(c, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k),
                                    static_cast<int>(p.batch));
    const i64 tiles = i64{grid.rows} * grid.columns * grid.batch;
    if (is_plain(c.schedule)) {
      if (tiles > i64{clusters_at_once(c.cluster.k, device)} * plain_ctas(c)) return {};
      return {i64{plain_early_row_bytes(c)}, c.cluster.k};
    }
    if (tiles > product.split.clusters || product.split.streamed > 0) return {};
    return {i64{c.stages} * kSwizzleRowBytes, c.cluster.k};
  }

  Result<StepPlan> plan(const PlanRequest& request) const override {
    SLUICE_TAKE(Plan made, plan_product(request));
    SLUICE_TRY(shrink(made, request.options));
    return StepPlan(made);
  }
  bool agrees(const StepPlan& plan) const override {
    const auto* made = plan.get<Plan>();
    const Result<Problem> problem = check_problem(step_.problem);
    return made != nullptr && problem && *problem == made->problem;
  }
  Overlap overlap_of(const StepPlan& plan) const override { return plan.get<Plan>()->config.overlap; }
  i64 workspace_of(const StepPlan& plan) const override { return plan.get<Plan>()->workspace_bytes; }
  double estimate_us(const StepPlan& plan, const DeviceInfo&) const override {
    const Plan& made = *plan.get<Plan>();
    return made.measured_us > 0 ? made.measured_us : made.estimate.total_us;
  }
  Result<ChainLaunch> bind(const std::any& kernel, const PlannedStep& planned) const override {
    SLUICE_TAKE(ChainLaunch bound, bind_product(kernel, planned));
    // The second kernel of a split, which adds up, always waits for the first itself.
    const bool adds_up = std::any_cast<const gemm::Kernel&>(kernel).impl().modules.size() > 1;
    const int sums = adds_up && step_.args.alpha != 0.0f ? 1 : 0;
    bound.kernels += sums;
    bound.programmatic += sums;
    return bound;
  }

  decltype(TunedStep::kernel) choice_of(const StepPlan& plan) const override {
    return sluice::choice_of(*plan.get<Plan>());
  }
  bool may_have(const TunedStep& tuned, const DeviceInfo& device) const override {
    const auto* kernel = std::get_if<TunedChoice>(&tuned.kernel);
    return kernel != nullptr && step_.overrides == PlanOverrides{} && is_listed(*kernel) &&
           kernel->combine != Combine::separate &&
           gemm::plan(step_.problem, device, overrides_of(*kernel)).ok();
  }
  bool put(const TunedStep& tuned, ChainStep& step) const override {
    const auto* kernel = std::get_if<TunedChoice>(&tuned.kernel);
    if (kernel != nullptr) std::get<ProductStep>(step.work).overrides = overrides_of(*kernel);
    return kernel != nullptr;
  }
  StepRecipe recipe() const override { return recipe_of(with_strides(step_.problem)); }
  std::string kernel_name(const StepPlan& plan) const override {
    KernelConfig config = plan.get<Plan>()->config;
    config.overlap = {};
    return short_name(config);
  }

 private:
  /// Equal kernels and sums whatever the overlap, so that bits do not depend on it: the second kernel of
  /// Combine::separate overlaps with nobody, so no step gets it unasked, with the overlap off neither.
  Result<Plan> plan_product(const PlanRequest& request) const {
    PlanOverrides overrides = step_.overrides;
    if (overrides.combine != Combine::separate) overrides.overlap = request.overlap;
    Result<Plan> made = gemm::plan(step_.problem, request.device, overrides, request.records);
    if (!made || overrides.combine || made->config.combine != Combine::separate) return made;
    overrides.combine = Combine::last_arriver;
    return gemm::plan(step_.problem, request.device, overrides, request.records);
  }
};

}  // namespace

std::shared_ptr<const Step> make_step(const ProductStep& step) {
  return std::make_shared<const ProductOfChain>(step);
}

}  // namespace sluice
