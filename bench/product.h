// SPDX-License-Identifier: Apache-2.0
// A product of either kind, dense or of packed weights: the one vocabulary in which bench/ and the tool speak
// of problems, of plans and of what a caller asked for. Everything that differs between the kinds and is no
// measurement is a function here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <sluice/packed.h>
#include <sluice/plan.h>
#include <sluice/rows.h>

namespace sluice::bench {

using AnyProblem = std::variant<Problem, PackedProblem>;
using AnyPlan = std::variant<Plan, packed::Plan>;
using AnyRowTable = std::variant<gemm::RowTable, packed::RowTable>;

/// A problem as its caller stated it. alpha and beta are those of dense products; packed ones have neither.
template <class ItsProblem, class ItsOverrides>
struct BasicRequest {
  ItsProblem problem{};
  ItsOverrides overrides{};
  float alpha = 1.0f, beta = 0.0f;
};
using DenseRequest = BasicRequest<Problem, PlanOverrides>;
using PackedRequest = BasicRequest<PackedProblem, packed::Overrides>;
using Request = std::variant<DenseRequest, PackedRequest>;

/// A request and the plan that was made of it.
struct Planned {
  Request request{};
  AnyPlan plan{};
};

bool is_packed(const AnyProblem& problem);
AnyProblem problem_of(const Request& request);
AnyProblem problem_of(const AnyPlan& plan);
/// The request with another number of rows; nothing else that it says depends on it.
Request with_rows(Request request, i64 m);
/// The problem as it stands, nothing overruled. beta is 1 with a residual, whose bytes count.
Request request_of(const AnyProblem& problem);
bool has_overrides(const Request& request);

/// The planner's pick. Errors: those of gemm::plan and packed::plan.
Result<AnyPlan> plan_of(const Request& request, const DeviceInfo& device, const RecordBook& records);
/// What the planner's model would consider, best estimate first.
Result<std::vector<AnyPlan>> candidates_of(const Request& request, const DeviceInfo& device);
/// The plan that a record makes of it, of the first book that has one; nothing where the model would choose.
std::optional<AnyPlan> recorded_plan(const AnyProblem& problem, const DeviceInfo& device,
                                     std::span<const RecordBook> books);
/// Few kernels for a range of rows (sluice/rows.h), and the plan of one m of it.
Result<AnyRowTable> table_of(const AnyProblem& problem, RowRange rows, const DeviceInfo& device,
                             const RecordBook& records);
Result<AnyPlan> plan_of(const AnyRowTable& table, i64 m, const DeviceInfo& device);
/// The same kernel walking the same way.
bool is_same(const Plan& a, const Plan& b);
bool is_same(const AnyPlan& a, const AnyPlan& b);

/// problem_text (shapes.h) or, of a packed one, "16x3584x8192 fp16 * uint4 g64 > fp16".
std::string name_of(const AnyProblem& problem);
/// What stays of the name for kernels of one problem: short_name, and the config and split as to_string has
/// them (packed products are not split: "").
std::string short_name(const AnyPlan& plan);
std::string config_text(const AnyPlan& plan);
std::string split_text(const AnyPlan& plan);
/// What `sluice plan` prints.
std::string describe(const AnyPlan& plan);
/// Where the model thinks the time goes; of packed products it knows the sum alone.
Estimate estimate_of(const AnyPlan& plan);
PlanSource source_of(const AnyPlan& plan);
/// Problem and config in full, a line each: what a message about a wrong kernel must have.
std::string text_of(const AnyPlan& plan);
/// The JIT units of the plan's kernels.
std::vector<std::string> units_of(const AnyPlan& plan, const Options& options);

/// Has it no output, or nothing to sum?
bool is_empty(const AnyProblem& problem);
/// The type whose peak rate the product is held to: A's, or that of tokens.
DType input_type(const AnyProblem& problem);
i64 weight_bytes(const AnyProblem& problem);
/// Floating-point operations of the product, and bytes that must move once: A, B, D and C.
double flops_of(const AnyProblem& problem);
double bytes_of_traffic(const AnyProblem& problem);

}  // namespace sluice::bench
