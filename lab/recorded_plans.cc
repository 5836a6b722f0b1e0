// SPDX-License-Identifier: Apache-2.0
// For each record, the planner is given a book that contains only this record.
#include "lab/recorded_plans.h"

#include <fmt/format.h>

#include <algorithm>

#include <sluice/plan/records/record.h>
#include <sluice/plan/records/record_book.h>
#include <sluice/run/ops/problem_key.h>

#include "bench/shapes.h"

namespace sluice::lab {
namespace {

/// A recorded choice, and a problem that it is for. Choices of a chain's steps are listed as records of their
/// product, and the problem is the step's.
struct Chosen {
  TuningRecord record;
  Problem problem;
};

std::vector<Chosen> chosen_of(const ParsedRecords& records) {
  std::vector<Chosen> all;
  for (const TuningRecord& record : records.records) all.push_back({record, example_of(record.key.recipe)});
  for (const TunedChain& chain : records.chains)
    for (const auto& [recipe, choice] : chain.steps) {
      const auto* product = std::get_if<Recipe>(&recipe);
      if (product == nullptr || !choice.kernel) continue;  // without a kernel the planner chooses
      const Problem problem = example_of(*product);
      const TuningKey key{.gpu = chain.gpu, .sm_count = chain.sm_count, .recipe = recipe_of(problem)};
      all.push_back({{.key = key, .choice = *choice.kernel}, problem});
    }
  return all;
}

/// Returns a name that is equal for plans with equal packed weights, so that the weights are made once for
/// all of them. Returns "" for dense plans.
std::string weights_of(const Plan& plan) {
  if (!is_packed(plan.problem)) return "";
  Problem p = plan.problem;
  p.m = 1;
  p.d.type = DType::bf16;
  p.epilogue.activation = Activation::none;
  p.epilogue.gated = p.norm_a = p.epilogue.residual = false;
  p.d.ld = p.c.ld = 0;
  return to_string(key_of(p));
}

}  // namespace

RecordedPlans recorded_plans(const ParsedRecords& records, const DeviceInfo& device) {
  RecordedPlans made;
  for (const Chosen& chosen : chosen_of(records)) {
    const Problem& problem = chosen.problem;
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
    std::optional<Plan> plan = recorded_plan(problem, as_recorded, book);
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

}  // namespace sluice::lab
