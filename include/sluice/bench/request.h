// SPDX-License-Identifier: Apache-2.0
// A request is what is measured: a problem with its overrides and scalars, its name and its size. This folder
// has the interface of the library sluice_bench, which times, verifies and tunes; the `sluice` tool is a
// program over it. Its headers may change from release to release.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/gemm.h>
#include <sluice/rows.h>
#include <sluice/spec/packed.h>

namespace sluice::bench {

/// A problem as the caller stated it. `problem.conv` is set for every convolution, a pointwise one too, whose
/// plan is that of a plain product.
struct Request {
  Problem problem{};
  PlanOverrides overrides{};
  float alpha = 1.0f, beta = 0.0f;
};

/// A request and its plan.
struct Planned {
  Request request{};
  Plan plan{};
  // The winner of a race, timed together with `plan`; empty without a race.
  std::optional<Result<Plan>> raced{};
};

/// Returns the problem as the planner lowers it: a pointwise convolution is a plain product, without `conv`.
Problem lowered(Problem problem);
/// Returns the request with m rows. Nothing else in it depends on the number of rows.
Request with_rows(Request request, i64 m);
/// Returns a request without overrides. With a residual beta is 1, so that reading C counts as traffic.
Request request_of(const Problem& problem);
bool has_overrides(const Request& request);
/// Returns whether the request has overrides other than ignore_records.
bool chooses_kernels(const Request& request);

/// Returns the planner's pick. Errors: those of gemm::plan.
inline Result<Plan> plan_of(const Request& request, const DeviceInfo& device, const RecordBook& records) {
  return gemm::plan(request.problem, device, request.overrides, records);
}
/// Returns all candidates of the planner's cost model, best estimate first.
inline Result<std::vector<Plan>> candidates_of(const Request& request, const DeviceInfo& device) {
  return gemm::candidates(request.problem, device, request.overrides);
}
/// True if the plans have the same kernel, split and raster.
bool is_same(const Plan& a, const Plan& b);

/// The problem's name: "4096x4096x4096 e4m3 > bf16", then layouts, batch and epilogue if they are not the
/// defaults. A convolution: "wgrad 32x64x56x56 * 64x3x3 padding 1 bf16 > bf16". Packed weights: "16x3584x8192
/// fp16 * uint4 g64 > fp16".
std::string name_of(const Problem& problem);
std::string name_of(const Request& request);
/// True if D has no elements or k is 0.
bool has_no_product(const Problem& problem);
i64 weight_bytes(const Problem& problem);
/// Floating-point operations; bytes of A, B, C and D that must move at least once. Convolutions count each
/// combination of pixel of y, tap, channel and filter once.
double flops_of(const Problem& problem);
double bytes_of_traffic(const Problem& problem);

}  // namespace sluice::bench
