// SPDX-License-Identifier: Apache-2.0
#include "bench/product.h"

#include "bench/record.h"
#include "bench/shapes.h"

namespace sluice::bench {
namespace {

template <class Plans>
Result<std::vector<AnyPlan>> any_of(Result<Plans> plans) {
  if (!plans) return plans.error();
  return std::vector<AnyPlan>(std::make_move_iterator(plans->begin()), std::make_move_iterator(plans->end()));
}

}  // namespace

std::string name_of(const AnyProblem& problem) {
  if (const auto* packed = std::get_if<PackedProblem>(&problem)) return shape_name({.packed = *packed});
  return problem_text(std::get<Problem>(problem));
}

Result<std::vector<AnyPlan>> candidates_of(const AnyProblem& problem, const DeviceInfo& device) {
  if (const auto* packed = std::get_if<PackedProblem>(&problem))
    return any_of(packed::candidates(*packed, device));
  return any_of(gemm::candidates(std::get<Problem>(problem), device));
}

std::optional<AnyPlan> recorded_plan(const AnyProblem& problem, const DeviceInfo& device,
                                     std::span<const RecordBook> books) {
  const auto if_recorded = [](auto plan) -> std::optional<AnyPlan> {
    if (!plan || plan->source != PlanSource::record) return std::nullopt;
    return AnyPlan(*std::move(plan));
  };
  for (const RecordBook& book : books) {
    const auto* packed = std::get_if<PackedProblem>(&problem);
    std::optional<AnyPlan> plan = packed != nullptr
                                      ? if_recorded(packed::plan(*packed, device, {}, book))
                                      : if_recorded(gemm::plan(std::get<Problem>(problem), device, {}, book));
    if (plan) return plan;
  }
  return std::nullopt;
}

bool is_same(const Plan& a, const Plan& b) {
  return a.config == b.config && a.split == b.split;
}

bool is_same(const AnyPlan& a, const AnyPlan& b) {
  if (a.index() != b.index()) return false;
  if (const auto* packed = std::get_if<packed::Plan>(&a))
    return packed->config == std::get<packed::Plan>(b).config;
  return is_same(std::get<Plan>(a), std::get<Plan>(b));
}

AnyProblem problem_of(const AnyPlan& plan) {
  return std::visit([](const auto& p) { return AnyProblem(p.problem); }, plan);
}

std::string short_name(const AnyPlan& plan) {
  if (const auto* packed = std::get_if<packed::Plan>(&plan)) return packed::short_name(packed->config);
  return sluice::short_name(std::get<Plan>(plan).config);
}

std::string config_text(const AnyPlan& plan) {
  return std::visit([](const auto& p) { return to_string(p.config); }, plan);
}

double estimate_us(const AnyPlan& plan) {
  if (const auto* packed = std::get_if<packed::Plan>(&plan)) return packed->estimate_us;
  return std::get<Plan>(plan).estimate.total_us;
}

}  // namespace sluice::bench
