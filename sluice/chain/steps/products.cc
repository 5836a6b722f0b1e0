// SPDX-License-Identifier: Apache-2.0
// Steps that are products. The prefetched share of B, if it is not packed, is an equal part of each of its
// rows, because a product takes as long as its slowest CTA. If it were the first bytes of B, some CTAs would
// find all of their weights in L2 and others none, which gains nothing (docs/findings/chains-windows.md).
#include <algorithm>

#include <sluice/chain/step.h>
#include <sluice/chain/steps/kinds.h>
#include <sluice/plan/between_neighbours.h>
#include <sluice/plan/dense/candidates.h>
#include <sluice/plan/dense/cluster_grid.h>
#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/run/ops/gemm.h>
#include <sluice/spec/plain.h>
#include <sluice/spec/smem_layout.h>
#include <sluice/spec/validate.h>

namespace sluice {
namespace {

/// Kernels whose estimates are at most this many times the best one's may be faster between neighbours.
constexpr double kNearlyBest = 1.1;

/// Reduces the stages until the CTA's shared memory is within the options' limits.
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
  plan.measured_us = 0;  // the measured time is that of the kernel with more stages
  return {};
}

/// B as rows in memory, one per column of B, or one per k if B is MN-major. If a batch has gaps, only its
/// first matrix.
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

/// Returns a plan as it is in a step's StepPlan.
const Plan& plan_in(const StepPlan& plan) {
  return *plan.get<Plan>();
}

/// A product whose B is not packed, and what both kinds of product have in common.
class ProductOfChain : public Step {
 public:
  explicit ProductOfChain(const ProductStep& step) : step_(step) {}

  std::vector<StepRange> ranges(bool (*wanted)(Role)) const override {
    const Result<Operands> table = gemm::operands_of(step_.problem);
    return table ? ranges_of(*table, gemm::pointers_of(step_.args), wanted) : std::vector<StepRange>{};
  }
  i64 moved_bytes() const override {
    const Result<Operands> table = gemm::operands_of(step_.problem);
    return table ? sluice::moved_bytes(*table, gemm::pointers_of(step_.args)) : 0;
  }

  Result<void> check(const ChainStep& step) const override {
    if (is_conv(step_.problem.conv))
      return refused("a convolution cannot be a step of a chain yet: launch it between chains");
    if (sums_groups(step_.problem))
      return refused(
          "a product of groups along k computes gradients, and cannot be a step of a chain: launch it "
          "between "
          "chains");
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
  /// Groups read their table first, which an earlier step may write.
  bool has_early_weights() const override { return !has_groups(step_.problem); }
  bool is_launched() const override {
    return !is_empty(step_.problem) && !leaves_d(step_.problem, step_.args.alpha);
  }

  WarmRange share_of_weights(i64 bytes, const SkippedK& skip) const override {
    bytes = std::min(bytes, streamed_weights(*this).bytes);
    if (bytes <= 0) return {};
    const RowsOfB b = rows_of_b(step_);
    // A row is divided into equal parts only if rows have no gaps, because all parts must have one stride.
    const i64 parts = b.stride == b.bytes && b.bytes % skip.parts == 0 ? skip.parts : 1;
    const i64 whole = b.bytes / parts, head = step_.problem.b.major == Major::k ? skip.bytes : 0;
    if (head >= whole) return {};
    const i64 part = whole - head;
    if (bytes < part) return {static_cast<const u8*>(b.data) + head, bytes};
    return spread_rows(static_cast<const u8*>(b.data) + head, part, b.stride / parts, b.rows * parts,
                       bytes / part);
  }
  /// Returns no bytes if some CTA starts its tile late, with nothing loaded before the wait: there is a
  /// second wave, or a CTA has a second tile.
  SkippedK ring(const StepPlan& plan, const DeviceInfo& device) const override {
    const Plan& product = plan_in(plan);
    const KernelConfig& c = product.config;
    if (c.overlap.wait != Wait::weights_first || loads_strided(c)) return {};
    const Problem p = product_of(product.problem, c);
    const TileGrid grid = tile_grid(c, static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k),
                                    static_cast<int>(p.batch));
    const i64 tiles = i64{grid.rows} * grid.columns * grid.batch;
    if (is_plain(c.schedule)) {
      if (tiles > i64{clusters_at_once(c.cluster.k, device)} * plain_ctas(c)) return {};
      return {i64{plain_early_row_bytes(c)}, c.cluster.k};
    }
    if (tiles > product.split.clusters || product.split.slices > 1) return {};
    return {i64{c.stages} * kSwizzleRowBytes, c.cluster.k};
  }

  Result<StepPlan> plan(const PlanRequest& request) const override {
    if (step_.choice) {
      if (const std::optional<Plan> known = plan_of(*step_.choice, request.device)) return StepPlan(*known);
      return Error{ErrorCode::invalid_config,
                   "its choice is no kernel that the planner considers for this product: leave it out"};
    }
    SLUICE_TAKE(const Plan made, searched(request));
    return StepPlan(made);
  }
  /// A product with a second kernel overlaps with no step.
  Result<StepPlan> with_overlap(const StepPlan& plan, const Overlap& overlap) const override {
    if (plan_in(plan).config.combine == Combine::separate) return plan;
    SLUICE_TAKE(const Plan made, gemm::with_overlap(plan_in(plan), overlap));
    return StepPlan(made);
  }
  bool shares_plan(const Step& other) const override {
    const auto* same = dynamic_cast<const ProductOfChain*>(&other);
    return same != nullptr && same->step_.problem == step_.problem &&
           same->step_.overrides == step_.overrides && same->step_.choice == step_.choice;
  }
  bool agrees(const StepPlan& plan) const override {
    const auto* made = plan.get<Plan>();
    const auto problem = check_problem(step_.problem);
    return made != nullptr && problem && *problem == made->problem;
  }
  Overlap overlap_of(const StepPlan& plan) const override { return plan_in(plan).config.overlap; }
  i64 workspace_of(const StepPlan& plan) const override { return plan_in(plan).workspace_bytes; }
  double estimate_us(const StepPlan& plan, const DeviceInfo&) const override {
    const Plan& made = plan_in(plan);
    return made.measured_us > 0 ? made.measured_us : made.estimate.total_us;
  }
  std::vector<std::string> units(const StepPlan& plan) const override {
    return gemm::units_of(plan_in(plan));
  }
  Result<std::any> prepare(const Device& device, const StepPlan& plan) const override {
    SLUICE_TAKE(const auto kernel, gemm::prepare(device, plan_in(plan)));
    return std::any(kernel);
  }
  Result<ChainLaunch> bind(const std::any& kernel, const PlannedStep& planned) const override {
    const auto& made = *std::any_cast<gemm::Kernel>(&kernel);
    gemm::Args args = step_.args;
    args.prefetch = planned.prefetch;
    args.hand_off = planned.hand_off;
    SLUICE_TRY(ops::check_args<ops::Gemm>(made.impl(), args));
    const auto launch = [made, args](const WorkspaceView& workspace, Stream stream) {
      gemm::Args with = args;
      if (made.plan().workspace_bytes > 0) with.workspace = workspace;
      return gemm::launch(made, with, stream);
    };
    // With split-K a second kernel may add up the slices. It is always a dependent launch, and waits for the
    // first.
    const int sums = made.impl().modules.size() > 1 && step_.args.alpha != 0.0f ? 1 : 0;
    const int products = gemm::launches_of(made.plan());
    return ChainLaunch{.launch = launch,
                       .kernels = products + sums,
                       .programmatic = programmatic_of(planned) * products + sums};
  }

  std::optional<TunedChoice> choice_of(const StepPlan& plan) const override {
    return sluice::choice_of(plan_in(plan));
  }
  bool may_have(const TunedStep& tuned, const DeviceInfo& device) const override {
    return tuned.kernel && tuned.kernel->combine != Combine::separate && !step_.choice &&
           step_.overrides == PlanOverrides{} && plan_of(*tuned.kernel, device);
  }
  /// If the choice has no kernel, the step keeps the caller's.
  bool put(const TunedStep& tuned, ChainStep& step) const override {
    if (!tuned.kernel) return true;
    if (decodes(tuned.kernel->schedule) != is_packed(step_.problem)) return false;
    std::get<ProductStep>(step.work).choice = tuned.kernel;
    return true;
  }
  StepRecipe recipe() const override { return step_recipe_of(step_.problem); }

  std::string kernel_name(const StepPlan& plan) const override {
    KernelConfig config = plan_in(plan).config;
    config.overlap = {};
    return short_name(config);
  }
  std::string text(const StepPlan& plan) const override {
    const Problem& p = step_.problem;
    const std::string groups = has_groups(p) ? " in " + std::to_string(p.batch) + " groups" : "";
    return std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k) + groups + " " +
           kernel_name(plan);
  }

 protected:
  Result<Plan> plan_with(const PlanOverrides& overrides, const PlanRequest& request) const {
    return gemm::plan(step_.problem, request.device, overrides, request.records);
  }
  /// Returns the planner's plan. It has one kernel unless the caller asks for Combine::separate, whose second
  /// kernel cannot overlap with any step. So the result's bits do not depend on the overlap.
  virtual Result<Plan> searched(const PlanRequest& request) const {
    SLUICE_TAKE(Plan made, plan_with(step_.overrides, request));
    if (!step_.overrides.combine && made.config.combine == Combine::separate) {
      PlanOverrides overrides = step_.overrides;
      overrides.combine = Combine::last_arriver;
      SLUICE_TAKE(made, plan_with(overrides, request));
    }
    SLUICE_TRY(shrink(made, request.options));
    return made;
  }

  const ProductStep& step_;

 private:
  /// Returns the plan of a choice; nullopt if the planner would not consider it.
  std::optional<Plan> plan_of(const TunedChoice& choice, const DeviceInfo& device) const {
    const Result<Problem> checked = check_problem(step_.problem);
    return checked ? gemm::plan_of(choice, *checked, device) : std::nullopt;
  }
};

/// A product whose B is packed.
class PackedOfChain : public ProductOfChain {
 public:
  using ProductOfChain::ProductOfChain;

  WarmRange share_of_weights(i64 bytes, const SkippedK& skip) const override {
    return Step::share_of_weights(bytes, skip);
  }
  SkippedK ring(const StepPlan&, const DeviceInfo&) const override { return {}; }
  /// Plans the kernel that is fastest by itself. Between neighbours, without a tuning record, plans instead
  /// the one with the least us_between_neighbours() among all whose estimates are within kNearlyBest of the
  /// best. Groups overlap less, and stay with their kernel.
  Result<Plan> searched(const PlanRequest& request) const override {
    SLUICE_TAKE(const Plan alone, plan_with(step_.overrides, request));
    if (!request.between_neighbours || step_.overrides != PlanOverrides{} ||
        alone.source != PlanSource::model || has_groups(step_.problem))
      return alone;
    SLUICE_TAKE(const auto ranked, gemm::candidates(step_.problem, request.device));
    const Plan* best = &ranked[0];
    for (const Plan& plan : ranked)
      if (plan.estimate.total_us <= kNearlyBest * ranked[0].estimate.total_us &&
          us_between_neighbours(plan, request.device) < us_between_neighbours(*best, request.device))
        best = &plan;
    return *best;
  }
};

}  // namespace

std::shared_ptr<const Step> make_step(const ProductStep& step) {
  if (is_packed(step.problem)) return std::make_shared<const PackedOfChain>(step);
  return std::make_shared<const ProductOfChain>(step);
}

}  // namespace sluice
