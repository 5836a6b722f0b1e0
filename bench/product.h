// SPDX-License-Identifier: Apache-2.0
// A product of either kind, dense or with packed weights. bench/ and the tool use these types for problems,
// plans and requests. Except for measurements, everything that differs between the kinds is a function here.
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

/// A problem as the caller stated it. Only dense products use alpha and beta. `conv`: the convolution that
/// the product computes, a pointwise one too, whose problem has none.
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
  std::optional<Result<AnyPlan>> raced{};  // the winner of a race, to be timed together with the plan
};

bool is_packed(const AnyProblem& problem);
AnyProblem problem_of(const Request& request);
AnyProblem problem_of(const AnyPlan& plan);
/// The request with another number of rows; nothing else in it depends on that number.
Request with_rows(Request request, i64 m);
/// A request without overrides. beta is 1 with a residual, because its bytes count.
Request request_of(const AnyProblem& problem);
bool has_overrides(const Request& request);
/// Returns whether the request has overrides other than ignore_records.
bool chooses_kernels(const Request& request);

/// The planner's pick. Errors: those of gemm::plan and packed::plan.
Result<AnyPlan> plan_of(const Request& request, const DeviceInfo& device, const RecordBook& records);
/// The plan that gemm::race or packed::race finds; the planner's pick where there is nothing to race.
Result<AnyPlan> raced_plan_of(const AnyProblem& problem, const Device& device, int candidates);
/// All candidates of the planner's model, best estimate first.
Result<std::vector<AnyPlan>> candidates_of(const Request& request, const DeviceInfo& device);
/// Returns the plan of the first book that has a record for the problem; nothing if no book has one.
std::optional<AnyPlan> recorded_plan(const AnyProblem& problem, const DeviceInfo& device,
                                     std::span<const RecordBook> books);
/// Few kernels for a range of rows (sluice/rows.h), and the plan for one m of it.
Result<AnyRowTable> table_of(const AnyProblem& problem, RowRange rows, const DeviceInfo& device,
                             const RecordBook& records);
Result<AnyPlan> plan_of(const AnyRowTable& table, i64 m, const DeviceInfo& device);
/// Returns whether two plans have equal kernel, split and raster.
bool is_same(const Plan& a, const Plan& b);
bool is_same(const AnyPlan& a, const AnyPlan& b);

/// The problem's name: problem_text (shapes.h) or, packed, "16x3584x8192 fp16 * uint4 g64 > fp16". `conv`:
/// as in a request.
std::string name_of(const AnyProblem& problem, const Conv& conv = {});
std::string name_of(const Request& request);
/// The convolution of a request; none for a product.
const Conv& conv_of(const Request& request);
/// Names of a plan within one problem: short_name, and the config and split as to_string prints them. The
/// split of a packed product is "".
std::string short_name(const AnyPlan& plan);
std::string config_text(const AnyPlan& plan);
std::string split_text(const AnyPlan& plan);
/// The text that `sluice plan` prints.
std::string describe(const AnyPlan& plan);
/// The model's estimate, by part; for packed products only the sum is known.
Estimate estimate_of(const AnyPlan& plan);
PlanSource source_of(const AnyPlan& plan);
/// Problem and config in full, a line each, for messages about a wrong kernel.
std::string text_of(const AnyPlan& plan);
/// The JIT units of the plan's kernels.
std::vector<std::string> units_of(const AnyPlan& plan, const Options& options);

/// Whether D has no elements or the sum no terms.
bool is_empty(const AnyProblem& problem);
/// The type whose peak rate the product is compared with: that of A, or of the tokens.
DType input_type(const AnyProblem& problem);
i64 weight_bytes(const AnyProblem& problem);
/// Floating-point operations, and bytes that must move once: A, B, D and C. A convolution counts each pixel
/// of y, tap, channel and filter once.
double flops_of(const AnyProblem& problem);
double bytes_of_traffic(const AnyProblem& problem);

}  // namespace sluice::bench
