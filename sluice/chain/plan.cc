// SPDX-License-Identifier: Apache-2.0
// From steps to a ChainPlan: the overlap of every place, then the plan of every different step once.
#include <algorithm>

#include <sluice/chain/chain.h>
#include <sluice/host/ops/norm.h>
#include <sluice/host/ops/quantize.h>
#include <sluice/spec/smem_layout.h>
#include <sluice/spec/validate.h>

namespace sluice {
namespace {

constexpr double kCompanionFixedUs = 2.0;  // of a kernel that moves next to nothing, alone

Error named(const ChainStep& step, size_t index, const Error& error) {
  return {error.code, step_name(step, index) + ": " + error.message};
}
Error refused(const std::string& message) {
  return {ErrorCode::invalid_argument, message};
}

/// What the chain decides must not have been decided before.
Result<void> check_step(const ChainStep& step) {
  if (const auto* s = std::get_if<ProductStep>(&step.work)) {
    if (s->overrides.overlap != Overlap{})
      return refused("PlanOverrides::overlap is the chain's to set: say it in ChainStep::overlap");
    if (s->args.workspace.data != nullptr)
      return refused("Args::workspace is the chain's to set: give it to enqueue");
    if (s->args.prefetch.bytes != 0 || s->args.hand_off.bytes != 0)
      return refused(
          "Args::prefetch and hand_off are the chain's to set: say hand_off_bytes and prefetch_bytes");
  }
  if (const auto* s = std::get_if<PackedStep>(&step.work))
    if (s->overrides.overlap != Overlap{} || s->args.prefetch.bytes != 0 || s->args.hand_off.bytes != 0)
      return refused(
          "packed::Overrides::overlap and Args::prefetch and hand_off are the chain's to set: say "
          "ChainStep::overlap, hand_off_bytes and prefetch_bytes");
  if (const auto* s = std::get_if<NormStep>(&step.work))
    if (s->options.overlap != Overlap{} || s->args.hand_off.bytes != 0)
      return refused(
          "NormOptions::overlap and NormArgs::hand_off are the chain's to set: say ChainStep::overlap and "
          "hand_off_bytes");
  if (const auto* s = std::get_if<NormStep>(&step.work)) {
    SLUICE_TRY(check_options(s->options));
    SLUICE_TRY(checked_shape(s->options, s->shape));
  }
  if (const auto* s = std::get_if<ForeignStep>(&step.work)) {
    if (!s->enqueue) return refused("ForeignStep::enqueue is empty: it must enqueue the step's launches");
    if (s->nodes < 0 || s->programmatic_edges < 0 || s->programmatic_edges > std::max(s->nodes - 1, 0))
      return refused("nodes = " + std::to_string(s->nodes) +
                     " and programmatic_edges = " + std::to_string(s->programmatic_edges) +
                     ": there are at least 0 nodes, and fewer edges between them");
    if (step.overlap || step.hand_off_bytes || step.prefetch_bytes)
      return refused(
          "a foreign step has no overlap, hand_off_bytes and prefetch_bytes: say ForeignStep::overlapped, "
          "and "
          "hand_off_bytes of the step before it");
  }
  if (const auto* s = std::get_if<QuantizerStep>(&step.work)) {
    if (s->args.hand_off.bytes != 0)
      return refused("QuantizeArgs::hand_off is the chain's to set: say hand_off_bytes");
    if (s->granularity == Granularity::tensor && !s->args.scale_given)
      return refused(
          "a scale of the whole matrix takes two kernels: give the scale (scale_given), or quantise rows");
    const QuantizerOptions options{s->input, s->granularity, s->gate, {}};
    SLUICE_TRY(check_options(options));
    SLUICE_TRY(checked_shape(options, s->shape));
  }
  if (step.hand_off_bytes.value_or(0) < 0 || step.prefetch_bytes.value_or(0) < 0)
    return refused("hand_off_bytes and prefetch_bytes must not be negative; 0 is none");
  return {};
}

/// Among the steps that launch anything.
struct Place {
  bool first = false, last = false;
  bool behind_foreign = false;  // directly, and not overlapped
};

/// What a record says is bent to the place; a caller who says what the place forbids is told so.
Result<Overlap> overlap_at(const PlannedStep& planned, const ChainOptions& options, const Place& place) {
  const ChainStep& step = planned.step;
  if (const auto* foreign = std::get_if<ForeignStep>(&step.work))
    return Overlap{Wait::none, foreign->overlapped ? Trigger::at_start : Trigger::never};
  const auto& [first, last, behind_foreign] = place;
  Overlap made{};
  if (options.overlap != ChainOverlap::off) {
    made.wait = options.overlap == ChainOverlap::wait_first ? Wait::first : Wait::weights_first;
    made.trigger = options.trigger;
    made.spacing = options.spacing;
  }
  if (step.overlap) {
    if (first && !planned.tuned && step.overlap->wait != Wait::none)
      return refused(
          "the first launch of a chain never waits, because it has nothing of the chain to wait for: wait "
          "must be none");
    if (behind_foreign && !planned.tuned && step.overlap->wait != Wait::none)
      return refused(
          "the step before it is a foreign one that is not overlapped: wait must be none, or set "
          "ForeignStep::overlapped");
    if (last && !planned.tuned && step.overlap->trigger != Trigger::never)
      return refused(
          "the last launch of a chain never triggers, because nobody knows what follows: trigger must be "
          "never");
    made = *step.overlap;
  }
  if (first || behind_foreign) made.wait = Wait::none;
  if (made.wait == Wait::none && !step.overlap) made.spacing = Spacing::memory;  // what no launch asks for
  if (last) made.trigger = Trigger::never;
  return made;
}

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

/// The index of `made`'s equal in `plans`, which is added if it is new.
template <class T, class Same>
int index_of(std::vector<T>& plans, const T& made, const Same& same) {
  const auto found = std::find_if(plans.begin(), plans.end(), same);
  if (found != plans.end()) return static_cast<int>(found - plans.begin());
  plans.push_back(made);
  return static_cast<int>(plans.size()) - 1;
}

/// Plans steps one after the other and remembers what it has planned: a chain of 32 layers has four products.
class Planner {
 public:
  Planner(const DeviceInfo& device, const ChainOptions& options, const RecordBook& records)
      : device_(device), options_(options), records_(records) {}

  Result<void> plan(PlannedStep& planned) {
    return std::visit([&](const auto& work) { return add(work, planned); }, planned.step.work);
  }
  ChainPlan take() { return std::move(chain_); }

 private:
  Result<void> add(const ProductStep& step, PlannedStep& planned) {
    if (step.overrides.combine == Combine::separate && planned.step.overlap && overlaps(planned.overlap))
      return refused(
          "its parts are added up by a second kernel, which overlaps with nobody: leave ChainStep::overlap "
          "out, or ask for another combine");
    PlanOverrides overrides = step.overrides;
    overrides.overlap = planned.overlap;
    const auto known = std::find_if(products_.begin(), products_.end(), [&](const KnownProduct& k) {
      return k.problem == step.problem && k.overrides == overrides;
    });
    if (known == products_.end()) {
      Result<Plan> made = plan_product(step.problem, overrides);
      if (!made) return made.error();
      if (const Result<void> small = shrink(*made, options_); !small) return small;
      products_.push_back({step.problem, overrides});
      chain_.products.push_back(*std::move(made));
      planned.plan = static_cast<int>(chain_.products.size()) - 1;
    } else {
      planned.plan = static_cast<int>(known - products_.begin());
    }
    const Plan& plan = chain_.products[static_cast<size_t>(planned.plan)];
    planned.overlap = plan.config.overlap;
    planned.estimate_us = plan.measured_us > 0 ? plan.measured_us : plan.estimate.total_us;
    if (planned.launched) chain_.workspace_bytes = std::max(chain_.workspace_bytes, plan.workspace_bytes);
    return {};
  }
  /// Equal kernels and sums whatever the overlap, so that bits do not depend on it: the second kernel of
  /// Combine::separate overlaps with nobody, so no step gets it unasked, with the overlap off neither.
  Result<Plan> plan_product(const Problem& problem, PlanOverrides overrides) const {
    if (overrides.combine == Combine::separate) overrides.overlap = {};
    Result<Plan> made = gemm::plan(problem, device_, overrides, records_);
    if (!made || overrides.combine || made->config.combine != Combine::separate) return made;
    overrides.combine = Combine::last_arriver;
    return gemm::plan(problem, device_, overrides, records_);
  }
  Result<void> add(const PackedStep& step, PlannedStep& planned) {
    packed::Overrides overrides = step.overrides;
    overrides.overlap = planned.overlap;
    const auto known = std::find_if(packed_.begin(), packed_.end(), [&](const KnownPacked& k) {
      return k.problem == step.problem && k.overrides == overrides;
    });
    if (known == packed_.end()) {
      Result<packed::Plan> made = packed::plan(step.problem, device_, overrides, records_);
      if (!made) return made.error();
      packed_.push_back({step.problem, overrides});
      chain_.packed.push_back(*std::move(made));
      planned.plan = static_cast<int>(chain_.packed.size()) - 1;
    } else {
      planned.plan = static_cast<int>(known - packed_.begin());
    }
    const packed::Plan& plan = chain_.packed[static_cast<size_t>(planned.plan)];
    planned.estimate_us = plan.measured_us > 0 ? plan.measured_us : plan.estimate_us;
    return {};
  }
  Result<void> add(const NormStep& step, PlannedStep& planned) {
    NormOptions made = step.options;
    made.overlap = planned.overlap;
    planned.plan = index_of(chain_.norms, made, [&](const NormOptions& o) {
      return o.input == made.input && o.quantize == made.quantize && o.overlap == made.overlap;
    });
    planned.estimate_us = companion_us(planned);
    return {};
  }
  Result<void> add(const QuantizerStep& step, PlannedStep& planned) {
    const QuantizerOptions made{step.input, step.granularity, step.gate, planned.overlap};
    planned.plan =
        index_of(chain_.quantizers, made, [&](const QuantizerOptions& other) { return other == made; });
    planned.estimate_us = companion_us(planned);
    return {};
  }
  Result<void> add(const ForeignStep&, PlannedStep&) { return {}; }
  double companion_us(const PlannedStep& planned) const {
    return kCompanionFixedUs + static_cast<double>(step_bytes(planned.step)) / device_.hbm_bytes_per_us;
  }

  struct KnownProduct {
    Problem problem;
    PlanOverrides overrides;
  };
  struct KnownPacked {
    PackedProblem problem;
    packed::Overrides overrides;
  };
  const DeviceInfo& device_;
  const ChainOptions& options_;
  const RecordBook& records_;
  std::vector<KnownProduct> products_;
  std::vector<KnownPacked> packed_;
  ChainPlan chain_;
};

}  // namespace

Result<ChainPlan> plan_chain(std::span<const ChainStep> steps, const DeviceInfo& device,
                             const ChainOptions& options, const RecordBook& records) {
  if (options.hand_off_bytes < 0 || options.prefetch_bytes < 0 || options.smem_limit < 0 ||
      options.most_stages < 0)
    return refused(
        "hand_off_bytes, prefetch_bytes, smem_limit and most_stages must not be negative; 0 is none");
  std::vector<PlannedStep> planned;
  size_t first = steps.size(), last = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (const Result<void> ok = check_step(steps[i]); !ok) return named(steps[i], i, ok.error());
    planned.push_back(
        {.step = steps[i], .launched = is_launched(steps[i]), .weight_bytes = main_weights(steps[i]).bytes});
    if (!planned.back().launched) continue;
    first = std::min(first, i);
    last = i;
  }
  // Footprints are asked for of kernels that are best alone.
  if (options.overlap == ChainOverlap::tuned && options.smem_limit == 0 && options.most_stages == 0)
    take_records(records.find(steps, device), device, planned);
  Planner planner(device, options, records);
  Place place;
  for (size_t i = 0; i < steps.size(); ++i) {
    place.first = i == first;
    place.last = i == last;
    const Result<Overlap> overlap = overlap_at(planned[i], options, place);
    if (!overlap) return named(steps[i], i, overlap.error());
    if (planned[i].launched) {
      planned[i].overlap = *overlap;
      const auto* foreign = std::get_if<ForeignStep>(&steps[i].work);
      place.behind_foreign = foreign != nullptr && !foreign->overlapped;
    }
    if (const Result<void> ok = planner.plan(planned[i]); !ok) return named(steps[i], i, ok.error());
  }
  if (const Result<void> ok = check_weights_unwritten(planned); !ok) return ok.error();
  ChainPlan chain = planner.take();
  chain.steps = std::move(planned);
  set_warm_ranges(chain, options, device);
  return chain;
}

}  // namespace sluice
