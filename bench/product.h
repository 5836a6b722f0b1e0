// SPDX-License-Identifier: Apache-2.0
// Problems with their overrides and plans, as bench/ and the tool pass them on, and their names and sizes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/rows.h>

namespace sluice::bench {

/// A problem as the caller stated it. `conv`: the convolution that the product computes. For a pointwise
/// convolution `problem` is a plain product, so only this member tells.
struct Request {
  Problem problem{};
  PlanOverrides overrides{};
  float alpha = 1.0f, beta = 0.0f;
  Conv conv{};
};

/// A request and its plan.
struct Planned {
  Request request{};
  Plan plan{};
  // The winner of a race, timed together with `plan`; empty without a race.
  std::optional<Result<Plan>> raced{};
};

/// Returns the request with m rows. Nothing else in it depends on the number of rows.
Request with_rows(Request request, i64 m);
/// Returns a request without overrides. With a residual beta is 1, so that reading C counts as traffic.
Request request_of(const Problem& problem);
bool has_overrides(const Request& request);
/// Returns whether the request has overrides other than ignore_records.
bool chooses_kernels(const Request& request);

/// Returns the planner's pick. Errors: those of gemm::plan.
Result<Plan> plan_of(const Request& request, const DeviceInfo& device, const RecordBook& records);
/// Returns all candidates of the planner's cost model, best estimate first.
Result<std::vector<Plan>> candidates_of(const Request& request, const DeviceInfo& device);
/// Returns the plan of the first book that has a record for the problem; nothing if no book has one.
std::optional<Plan> recorded_plan(const Problem& problem, const DeviceInfo& device,
                                  std::span<const RecordBook> books);
/// True if the plans have the same kernel, split and raster.
bool is_same(const Plan& a, const Plan& b);

/// The problem's name: problem_text() of shapes.h, or with packed weights for example "16x3584x8192 fp16 *
/// uint4 g64 > fp16". `conv`: as in a Request.
std::string name_of(const Problem& problem, const Conv& conv = {});
std::string name_of(const Request& request);
/// Names of a plan within one problem: config and split as to_string prints them. Plans of packed weights do
/// not split work, and the text of the split is "".
std::string config_text(const Plan& plan);
std::string split_text(const Plan& plan);
/// Problem and config in full, one line each, for messages about a wrong kernel.
std::string text_of(const Plan& plan);

/// True if D has no elements or k is 0.
bool has_no_product(const Problem& problem);
i64 weight_bytes(const Problem& problem);
/// Floating-point operations; bytes of A, B, C and D that must move at least once. Convolutions count each
/// combination of pixel of y, tap, channel and filter once.
double flops_of(const Problem& problem);
double bytes_of_traffic(const Problem& problem);

}  // namespace sluice::bench
