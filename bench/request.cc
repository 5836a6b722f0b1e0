// SPDX-License-Identifier: Apache-2.0
#include <sluice/bench/request.h>

#include <fmt/format.h>

#include <sluice/spec/conv_problem.h>
#include <sluice/try.h>

#include "bench/conv.h"
#include "bench/shapes.h"

namespace sluice::bench {
namespace {

std::string packed_name(const Problem& p) {
  const std::string bias = p.epilogue.bias == Bias::none ? "" : " bias";
  const std::string activation =
      p.epilogue.activation == Activation::none ? "" : std::string(" ") + name_of(p.epilogue.activation);
  return fmt::format("{}x{}x{} {} * {} g{}{}{} > {}{}{}", p.m, p.n, p.k, name_of(p.a.type),
                     name_of(p.b.packed.type), p.b.packed.group == 0 ? "k" : std::to_string(p.b.packed.group),
                     p.b.packed.scale == DType::fp16 ? "" : std::string(" ") + name_of(p.b.packed.scale),
                     p.b.packed.zero == ScaleZero::none ? "" : " zeros", name_of(p.d.type), bias, activation);
}

double size(i64 rows, i64 columns) {
  return static_cast<double>(rows) * static_cast<double>(columns);
}

double packed_traffic(const Problem& p) {
  return static_cast<double>(blob_bytes(p)) + size(p.m, p.k * bytes_of(p.a.type)) +
         size(p.m, p.n * bytes_of(p.d.type));
}

}  // namespace

Request request_of(const Problem& problem) {
  return {.problem = problem, .beta = problem.epilogue.residual ? 1.0f : 0.0f};
}

Problem lowered(Problem problem) {
  if (is_conv(problem.conv) && is_pointwise(problem.conv)) problem.conv = {};
  return problem;
}

bool has_overrides(const Request& request) {
  return request.overrides != PlanOverrides{};
}

bool chooses_kernels(const Request& request) {
  Request any_records = request;
  any_records.overrides.ignore_records = false;
  return has_overrides(any_records);
}

Request with_rows(Request request, i64 m) {
  request.problem.m = m;
  return request;
}

bool is_same(const Plan& a, const Plan& b) {
  return a.config == b.config && a.split == b.split;
}

std::string name_of(const Problem& problem) {
  return is_packed(problem) ? packed_name(problem) : problem_text(problem);
}
std::string name_of(const Request& request) {
  return name_of(request.problem);
}

std::string config_text(const Plan& plan) {
  return to_string(plan.config);
}

std::string split_text(const Plan& plan) {
  return is_packed(plan.problem) ? "" : to_string(plan.split);
}

std::optional<Plan> recorded_plan(const Problem& problem, const DeviceInfo& device,
                                  std::span<const RecordBook> books) {
  for (const RecordBook& book : books)
    if (Result<Plan> made = gemm::plan(problem, device, {}, book); made && made->source == PlanSource::record)
      return *std::move(made);
  return std::nullopt;
}

bool has_no_product(const Problem& problem) {
  return problem.m == 0 || problem.n == 0 || problem.k == 0 || problem.batch == 0;
}

i64 weight_bytes(const Problem& problem) {
  if (is_packed(problem)) return blob_bytes(problem);
  if (is_conv(problem.conv)) return conv_elements(problem.conv).b * bytes_of(problem.b.type);
  return problem.n * problem.k * b_matrices(problem) * bytes_of(problem.b.type);
}

double flops_of(const Problem& problem) {
  if (is_conv(problem.conv)) return conv_flops(problem.conv);
  return 2.0 * size(problem.m, problem.n) * static_cast<double>(problem.k) *
         static_cast<double>(a_matrices(problem));
}

double bytes_of_traffic(const Problem& problem) {
  return is_packed(problem) ? packed_traffic(problem) : dense_traffic(problem);
}

}  // namespace sluice::bench
