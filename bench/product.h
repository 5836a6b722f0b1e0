// SPDX-License-Identifier: Apache-2.0
// A product of either kind, dense or packed. bench/ and the tool use these types for problems, plans and
// requests. Everything that differs between the kinds, except measurements, is a function here.
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

/// A problem as the caller stated it. alpha and beta are used by dense products only. `conv`: the convolution
/// that the product computes. For a pointwise convolution `problem` is a plain product, so only this member
/// tells.
template <class ItsProblem, class ItsOverrides>
struct BasicRequest {
  ItsProblem problem{};
  ItsOverrides overrides{};
  float alpha = 1.0f, beta = 0.0f;
  Conv conv{};
};
using DenseRequest = BasicRequest<Problem, PlanOverrides>;
using PackedRequest = BasicRequest<PackedProblem, packed::Overrides>;
using Request = std::variant<DenseRequest, PackedRequest>;

/// A request and its plan.
struct Planned {
  Request request{};
  AnyPlan plan{};
  // The winner of a race, timed together with `plan`; empty without a race.
  std::optional<Result<AnyPlan>> raced{};
};

bool is_packed(const AnyProblem& problem);
AnyProblem problem_of(const Request& request);
AnyProblem problem_of(const AnyPlan& plan);
/// Returns the request with m rows. Nothing else in it depends on the number of rows.
Request with_rows(Request request, i64 m);
/// Returns a request without overrides. With a residual beta is 1, so that reading C counts as traffic.
Request request_of(const AnyProblem& problem);
bool has_overrides(const Request& request);
/// Returns whether the request has overrides other than ignore_records.
bool chooses_kernels(const Request& request);

/// Returns the planner's pick. Errors: those of gemm::plan and packed::plan.
Result<AnyPlan> plan_of(const Request& request, const DeviceInfo& device, const RecordBook& records);
/// Returns the winner of gemm::race or packed::race; the planner's pick if there is only one plan.
Result<AnyPlan> raced_plan_of(const AnyProblem& problem, const Device& device, int candidates);
/// Returns all candidates of the planner's cost model, best estimate first.
Result<std::vector<AnyPlan>> candidates_of(const Request& request, const DeviceInfo& device);
/// Returns the plan of the first book that has a record for the problem; nothing if no book has one.
std::optional<AnyPlan> recorded_plan(const AnyProblem& problem, const DeviceInfo& device,
                                     std::span<const RecordBook> books);
/// Chooses a few kernels that serve a range of rows (sluice/rows.h), and returns the plan for one m of the
/// range.
Result<AnyRowTable> table_of(const AnyProblem& problem, RowRange rows, const DeviceInfo& device,
                             const RecordBook& records);
Result<AnyPlan> plan_of(const AnyRowTable& table, i64 m, const DeviceInfo& device);
/// True if the plans have the same kernel, split and raster.
bool is_same(const Plan& a, const Plan& b);
bool is_same(const AnyPlan& a, const AnyPlan& b);

/// The problem's name. Dense: problem_text() of shapes.h. Packed: for example "16x3584x8192 fp16 * uint4 g64
/// > fp16". `conv`: as in a Request.
std::string name_of(const AnyProblem& problem, const Conv& conv = {});
std::string name_of(const Request& request);
/// Returns the convolution of a request. It is default-made if the request is a plain product.
const Conv& conv_of(const Request& request);
/// Names of a plan within one problem: short_name, and config and split as to_string prints them. For packed
/// products the text of the split is "".
std::string short_name(const AnyPlan& plan);
std::string config_text(const AnyPlan& plan);
std::string split_text(const AnyPlan& plan);
/// The text that `sluice plan` prints.
std::string describe(const AnyPlan& plan);
/// The cost model's estimate, by component. For packed products only the total is set.
Estimate estimate_of(const AnyPlan& plan);
PlanSource source_of(const AnyPlan& plan);
/// Problem and config in full, one line each, for messages about a wrong kernel.
std::string text_of(const AnyPlan& plan);
/// The JIT units of the plan's kernels.
std::vector<std::string> units_of(const AnyPlan& plan);

/// True if D has no elements or k is 0.
bool is_empty(const AnyProblem& problem);
/// The type whose peak rate is the base of shares of peak: that of A, or of the tokens.
DType input_type(const AnyProblem& problem);
i64 weight_bytes(const AnyProblem& problem);
/// Floating-point operations; bytes of A, B, C and D that must move at least once. Convolutions count each
/// combination of pixel of y, tap, channel and filter once.
double flops_of(const AnyProblem& problem);
double bytes_of_traffic(const AnyProblem& problem);

}  // namespace sluice::bench
