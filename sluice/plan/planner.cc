// SPDX-License-Identifier: Apache-2.0
// Turns a problem into a plan: checks it, takes its tuning record if there is one, else ranks candidates and
// takes the best. Pure: equal arguments give equal plans. tests/plans holds the model's choices as text.
#include <algorithm>

#include <sluice/kernels/registry.h>
#include <sluice/plan/constants.h>
#include <sluice/plan/dense/candidates.h>
#include <sluice/plan/dense/numbering.h>
#include <sluice/plan/dense/plain_plans.h>
#include <sluice/plan/dense/problem_checks.h>
#include <sluice/plan/dense/tuned_choice.h>
#include <sluice/plan/field_checks.h>
#include <sluice/plan/packed/packed_plans.h>
#include <sluice/records.h>
#include <sluice/try.h>

namespace sluice::gemm {
namespace {

/// Returns a problem whose record may be used for `p` if `p` has none: the product without gate, activation
/// and scale of D, and with a 16-bit D. With few rows of A the time is that of the loads, which are equal;
/// with many rows the epilogue is hidden or small.
std::optional<Problem> same_loads(const Problem& p) {
  if (!p.epilogue.gated && p.epilogue.scale_d == ScaleMode::none) return std::nullopt;
  Problem other = p;
  other.epilogue.gated = false;
  other.epilogue.scale_d = ScaleMode::none;
  other.epilogue.activation = Activation::none;
  if (is_fp8(p.d.type)) other.d.type = DType::bf16;
  other.d.ld = other.d.batch_stride = 0;
  return with_strides(other);
}

/// Returns all plans to choose from, best estimate first. `checked`: a result of check_problem().
Result<std::vector<Plan>> ranked(const Problem& checked, const DeviceInfo& device,
                                 const PlanOverrides& overrides) {
  return is_packed(checked) ? packed::ranked(checked, device, overrides)
                            : rank_candidates(checked, device, overrides);
}

/// Returns the best plan for a launch by itself: from a usable record, else the model's best. `overrides`
/// without an overlap.
Result<Plan> choose(const Problem& problem, const DeviceInfo& device, const PlanOverrides& overrides,
                    const RecordBook& records) {
  SLUICE_TRY(check_device(device));
  SLUICE_TRY(check_overrides(overrides));
  SLUICE_TAKE(const Problem checked, check_problem(problem));
  const i64 limit = overrides.workspace_limit.value_or(kWorkspaceLimit);
  if (overrides == PlanOverrides{.workspace_limit = overrides.workspace_limit})
    if (std::optional<Plan> recorded = recorded_plan(checked, device, records);
        recorded && recorded->workspace_bytes <= limit)
      return *std::move(recorded);
  SLUICE_TAKE(std::vector<Plan> plans, ranked(checked, device, overrides));
  return plans.front();  // never empty
}

}  // namespace

std::optional<Plan> plan_of(const TunedChoice& choice, const Problem& checked, const DeviceInfo& device) {
  return is_packed(checked) ? packed::plan_of(choice, checked, device)
                            : dense_plan_of(choice, checked, device);
}

std::optional<Plan> recorded_plan(const Problem& checked, const DeviceInfo& device,
                                  const RecordBook& records) {
  std::optional<TunedChoice> choice = records.find(checked, device);
  const bool packed = is_packed(checked);
  const std::optional<Problem> other = choice || packed ? std::nullopt : same_loads(checked);
  if (other) choice = records.find(*other, device);
  if (!choice || (packed && is_empty(checked))) return std::nullopt;
  std::optional<Plan> plan = plan_of(*choice, checked, device);
  // Before 0.3 a record could split only the tiles of the last wave; that plan is another.
  if (!plan || (choice->slices > 1 && plan->split.clusters != choice->clusters)) return std::nullopt;
  const bool made_direct = plan->config.store == StorePath::direct && why_not_tma_store(checked) == nullptr;
  if (other && made_direct && checked.m > kPlanner.search.borrowed_rows) return std::nullopt;
  plan->source = PlanSource::record;
  plan->measured_us = choice->measured_us;
  plan->product_alone = packed ? checked.epilogue.gated || checked.epilogue.residual || checked.norm_a ||
                                     checked.epilogue.scale_d != ScaleMode::none
                               : other.has_value();
  return plan;
}

Result<std::vector<Plan>> candidates(const Problem& problem, const DeviceInfo& device,
                                     const PlanOverrides& overrides) {
  SLUICE_TRY(check_device(device));
  SLUICE_TRY(check_overrides(overrides));
  SLUICE_TAKE(Problem checked, check_problem(problem));
  return is_packed(checked) ? packed::candidates(checked, device, overrides)
                            : rank_candidates(checked, device, overrides);
}

Result<Plan> plan(const Problem& problem, const DeviceInfo& device, const PlanOverrides& given,
                  const RecordBook& records) {
  PlanOverrides overrides = given;
  overrides.overlap = {};  // the overlap does not change which plan is fastest by itself
  Result<Plan> chosen = choose(problem, device, overrides, records);
  if (!chosen || given.overlap == Overlap{}) return chosen;
  // Separate means two kernels, which cannot overlap (spec/validate.h).
  if (chosen->config.combine == Combine::separate && !given.combine) {
    overrides.combine = Combine::last_arriver;
    chosen = choose(problem, device, overrides, records);
    if (!chosen) return chosen;
  }
  return with_overlap(*chosen, given.overlap);
}

Result<Plan> with_overlap(Plan plan, const Overlap& overlap) {
  SLUICE_TRY(check_overrides({.overlap = overlap}));
  plan.config.overlap = overlap;
  const KernelConfig& c = plan.config;
  if (const char* rule = decodes(c.schedule) ? validate_decoder(c) : validate(c))
    return Error{ErrorCode::invalid_config, rule};
  return plan;
}

}  // namespace sluice::gemm
