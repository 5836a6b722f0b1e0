// SPDX-License-Identifier: Apache-2.0
// Functions that differ between dense and packed products have overloads; the others use std::visit.
#include "bench/product.h"

#include <fmt/format.h>

#include <sluice/tools.h>
#include <sluice/try.h>

#include "bench/conv.h"
#include "bench/shapes.h"

namespace sluice::bench {
namespace {

Result<Plan> its_plan(const DenseRequest& r, const DeviceInfo& device, const RecordBook& records) {
  return gemm::plan(r.problem, device, r.overrides, records);
}
Result<packed::Plan> its_plan(const PackedRequest& r, const DeviceInfo& device, const RecordBook& records) {
  return packed::plan(r.problem, device, r.overrides, records);
}
Result<Plan> its_race(const Problem& p, const Device& device, int candidates) {
  return gemm::race(device, p, candidates);
}
Result<packed::Plan> its_race(const PackedProblem& p, const Device& device, int candidates) {
  return packed::race(device, p, candidates);
}
Result<std::vector<Plan>> its_candidates(const DenseRequest& r, const DeviceInfo& device) {
  return gemm::candidates(r.problem, device, r.overrides);
}
Result<std::vector<packed::Plan>> its_candidates(const PackedRequest& r, const DeviceInfo& device) {
  return packed::candidates(r.problem, device, r.overrides);
}

Result<gemm::RowTable> its_table(const Problem& p, RowRange rows, const DeviceInfo& device,
                                 const RecordBook& records) {
  return gemm::plan_rows(p, rows, device, records);
}
Result<packed::RowTable> its_table(const PackedProblem& p, RowRange rows, const DeviceInfo& device,
                                   const RecordBook& records) {
  return packed::plan_rows(p, rows, device, records);
}
Result<Plan> its_plan(const gemm::RowTable& t, i64 m, const DeviceInfo& device) {
  return gemm::plan(t, m, device);
}
Result<packed::Plan> its_plan(const packed::RowTable& t, i64 m, const DeviceInfo& device) {
  return packed::plan(t, m, device);
}

/// Converts a Result of a dense or packed type to a Result of the variant of both.
template <class Any, class One>
Result<Any> any(Result<One> made) {
  if (!made) return made.error();
  return Any(*std::move(made));
}

std::string packed_name(const PackedProblem& p) {
  const std::string bias = p.bias == Bias::none ? "" : " bias";
  const std::string activation =
      p.activation == Activation::none ? "" : std::string(" ") + name_of(p.activation);
  return fmt::format("{}x{}x{} {} * {} g{}{}{} > {}{}{}", p.m, p.n, p.k, name_of(p.x),
                     name_of(p.weights.type), p.weights.group == 0 ? "k" : std::to_string(p.weights.group),
                     p.weights.scale == DType::fp16 ? "" : std::string(" ") + name_of(p.weights.scale),
                     p.weights.zero == ScaleZero::none ? "" : " zeros", name_of(p.d), bias, activation);
}

double size(i64 rows, i64 columns) {
  return static_cast<double>(rows) * static_cast<double>(columns);
}

double packed_traffic(const PackedProblem& p) {
  return static_cast<double>(blob_bytes(p)) + size(p.m, p.k * bytes_of(p.x)) + size(p.m, p.n * bytes_of(p.d));
}

}  // namespace

bool is_packed(const AnyProblem& problem) {
  return std::holds_alternative<PackedProblem>(problem);
}

AnyProblem problem_of(const Request& request) {
  return std::visit([](const auto& r) { return AnyProblem(r.problem); }, request);
}

AnyProblem problem_of(const AnyPlan& plan) {
  return std::visit([](const auto& p) { return AnyProblem(p.problem); }, plan);
}

Request request_of(const AnyProblem& problem) {
  if (const auto* packed = std::get_if<PackedProblem>(&problem)) return PackedRequest{.problem = *packed};
  const Problem& dense = std::get<Problem>(problem);
  return DenseRequest{.problem = dense, .beta = dense.epilogue.residual ? 1.0f : 0.0f};
}

bool has_overrides(const Request& request) {
  return std::visit([](const auto& r) { return !(r.overrides == decltype(r.overrides){}); }, request);
}

bool chooses_kernels(const Request& request) {
  Request any_records = request;
  std::visit([](auto& r) { r.overrides.ignore_records = false; }, any_records);
  return has_overrides(any_records);
}

Request with_rows(Request request, i64 m) {
  std::visit([&](auto& r) { r.problem.m = m; }, request);
  return request;
}

Result<AnyPlan> plan_of(const Request& request, const DeviceInfo& device, const RecordBook& records) {
  return std::visit([&](const auto& r) { return any<AnyPlan>(its_plan(r, device, records)); }, request);
}

Result<AnyPlan> raced_plan_of(const AnyProblem& problem, const Device& device, int candidates) {
  return std::visit([&](const auto& p) { return any<AnyPlan>(its_race(p, device, candidates)); }, problem);
}

Result<AnyPlan> plan_of(const AnyRowTable& rows, i64 m, const DeviceInfo& device) {
  return std::visit([&](const auto& t) { return any<AnyPlan>(its_plan(t, m, device)); }, rows);
}

Result<AnyRowTable> table_of(const AnyProblem& problem, RowRange rows, const DeviceInfo& device,
                             const RecordBook& records) {
  return std::visit([&](const auto& p) { return any<AnyRowTable>(its_table(p, rows, device, records)); },
                    problem);
}

Result<std::vector<AnyPlan>> candidates_of(const Request& request, const DeviceInfo& device) {
  return std::visit(
      [&](const auto& r) -> Result<std::vector<AnyPlan>> {
        SLUICE_TAKE(auto made, its_candidates(r, device));
        return std::vector<AnyPlan>(std::make_move_iterator(made.begin()),
                                    std::make_move_iterator(made.end()));
      },
      request);
}

std::optional<AnyPlan> recorded_plan(const AnyProblem& problem, const DeviceInfo& device,
                                     std::span<const RecordBook> books) {
  for (const RecordBook& book : books)
    if (Result<AnyPlan> made = plan_of(request_of(problem), device, book);
        made && source_of(*made) == PlanSource::record)
      return *std::move(made);
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

std::string name_of(const AnyProblem& problem, const Conv& conv) {
  if (const auto* packed = std::get_if<PackedProblem>(&problem)) return packed_name(*packed);
  Problem named = std::get<Problem>(problem);
  if (is_conv(conv)) named.conv = conv;
  return problem_text(named);
}
std::string name_of(const Request& request) {
  return name_of(problem_of(request), conv_of(request));
}
const Conv& conv_of(const Request& request) {
  return std::visit([](const auto& r) -> const Conv& { return r.conv; }, request);
}

std::string short_name(const AnyPlan& plan) {
  if (const auto* packed = std::get_if<packed::Plan>(&plan)) return packed::short_name(packed->config);
  return sluice::short_name(std::get<Plan>(plan).config);
}

std::string config_text(const AnyPlan& plan) {
  return std::visit([](const auto& p) { return to_string(p.config); }, plan);
}

std::string split_text(const AnyPlan& plan) {
  const auto* dense = std::get_if<Plan>(&plan);
  return dense != nullptr ? to_string(dense->split) : "";
}

std::string describe(const AnyPlan& plan) {
  if (const auto* packed = std::get_if<packed::Plan>(&plan)) return packed::describe(*packed);
  return sluice::describe(std::get<Plan>(plan));
}

Estimate estimate_of(const AnyPlan& plan) {
  if (const auto* packed = std::get_if<packed::Plan>(&plan)) return {.total_us = packed->estimate_us};
  return std::get<Plan>(plan).estimate;
}

PlanSource source_of(const AnyPlan& plan) {
  return std::visit([](const auto& p) { return p.source; }, plan);
}

std::string text_of(const AnyPlan& plan) {
  return std::visit(
      [](const auto& p) { return fmt::format("{}\n  {}", to_string(p.problem), to_string(p.config)); }, plan);
}

std::vector<std::string> units_of(const AnyPlan& plan) {
  if (const auto* packed = std::get_if<packed::Plan>(&plan)) return packed::units_of(*packed);
  return gemm::units_of(std::get<Plan>(plan));
}

bool is_empty(const AnyProblem& problem) {
  if (const auto* dense = std::get_if<Problem>(&problem))
    if (dense->batch == 0) return true;
  return std::visit([](const auto& p) { return p.m == 0 || p.n == 0 || p.k == 0; }, problem);
}

DType input_type(const AnyProblem& problem) {
  if (const auto* packed = std::get_if<PackedProblem>(&problem)) return packed->x;
  return std::get<Problem>(problem).a.type;
}

i64 weight_bytes(const AnyProblem& problem) {
  if (const auto* packed = std::get_if<PackedProblem>(&problem)) return blob_bytes(*packed);
  const Problem& dense = std::get<Problem>(problem);
  if (is_conv(dense.conv)) return conv_elements(dense.conv).b * bytes_of(dense.b.type);
  return dense.n * dense.k * dense.batch * bytes_of(dense.b.type);
}

double flops_of(const AnyProblem& problem) {
  const auto* dense = std::get_if<Problem>(&problem);
  if (dense != nullptr && is_conv(dense->conv)) return conv_flops(dense->conv);
  return std::visit([](const auto& p) { return 2.0 * size(p.m, p.n) * static_cast<double>(p.k); }, problem) *
         (dense != nullptr ? static_cast<double>(dense->batch) : 1.0);
}

double bytes_of_traffic(const AnyProblem& problem) {
  if (const auto* packed = std::get_if<PackedProblem>(&problem)) return packed_traffic(*packed);
  return bytes_of_traffic(std::get<Problem>(problem));
}

}  // namespace sluice::bench
