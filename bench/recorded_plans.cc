// SPDX-License-Identifier: Apache-2.0
// For each record, the planner is given a book that contains only this record.
#include "bench/recorded_plans.h"

#include <fmt/format.h>

#include <algorithm>

#include <sluice/tools.h>

namespace sluice::bench {
namespace {

/// A recorded choice. Choices of a chain's steps are listed as records of their product.
struct Chosen {
  TuningRecord record;
  PackedStepRecipe fused{};  // for a packed step of a chain: norm and residual that the product computes
};

std::vector<Chosen> chosen_of(const ParsedRecords& records) {
  std::vector<Chosen> all;
  for (const TuningRecord& record : records.records) all.push_back({record});
  for (const TunedChain& chain : records.chains)
    for (const auto& [recipe, choice] : chain.steps) {
      Chosen made{.record = {.key = {.gpu = chain.gpu, .sm_count = chain.sm_count}}};
      if (const auto* dense = std::get_if<Recipe>(&recipe)) {
        made.record.key.recipe = *dense;
      } else if (const auto* packed = std::get_if<PackedStepRecipe>(&recipe)) {
        made.record.key.recipe = packed->product;
        made.fused = *packed;
      } else {
        continue;
      }
      if (const auto* dense = std::get_if<TunedChoice>(&choice.kernel))
        made.record.choice = *dense;
      else if (const auto* packed = std::get_if<packed::TunedChoice>(&choice.kernel))
        made.record.choice = *packed;
      else
        continue;  // the step has no recorded kernel, so the planner chooses
      all.push_back(std::move(made));
    }
  return all;
}

AnyProblem problem_of(const Chosen& chosen) {
  if (const auto* dense = std::get_if<Recipe>(&chosen.record.key.recipe)) return example_of(*dense);
  PackedProblem problem = example_of(std::get<PackedRecipe>(chosen.record.key.recipe));
  problem.gated = chosen.fused.gated;
  problem.norm_x = chosen.fused.norm_x;
  problem.residual = chosen.fused.residual;
  return problem;
}

/// Returns a name that is equal for plans with equal packed weights, so that the weights are made once for
/// all of them. Returns "" for dense plans.
std::string weights_of(const AnyPlan& plan) {
  const auto* packed = std::get_if<packed::Plan>(&plan);
  if (packed == nullptr) return "";
  PackedProblem p = packed->problem;
  p.m = 1;
  p.d = PackedProblem{}.d;
  p.activation = Activation::none;
  p.gated = p.norm_x = p.residual = false;
  p.ld_d = p.ld_c = 0;
  return to_string(p);
}

}  // namespace

RecordedPlans recorded_plans(const ParsedRecords& records, const DeviceInfo& device) {
  RecordedPlans made;
  for (const Chosen& chosen : chosen_of(records)) {
    const AnyProblem problem = problem_of(chosen);
    const TuningKey& key = chosen.record.key;
    const std::string name = name_of(problem);
    if (key.sm_count != device.sm_count) {
      made.passed_over.push_back(fmt::format("{}: of {} with {} SMs, and this GPU has {}", name, key.gpu,
                                             key.sm_count, device.sm_count));
      continue;
    }
    DeviceInfo as_recorded = device;
    as_recorded.name = key.gpu;
    const RecordBook book[] = {book_of(std::span(&chosen.record, 1))};
    std::optional<AnyPlan> plan = recorded_plan(problem, as_recorded, book);
    if (plan)
      made.plans.push_back({name, *std::move(plan)});
    else
      made.passed_over.push_back(fmt::format("{}: the planner does not follow its record", name));
  }
  std::stable_sort(made.plans.begin(), made.plans.end(), [](const RecordedPlan& a, const RecordedPlan& b) {
    return weights_of(a.plan) < weights_of(b.plan);
  });
  return made;
}

}  // namespace sluice::bench
