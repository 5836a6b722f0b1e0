// SPDX-License-Identifier: Apache-2.0
// Checks the arrays of a sort by expert, or of a sum of experts, that C callers pass, and makes the library's
// call from them. companions.h has the gathering between them. It allocates memory only for error messages.
#pragma once

#include <sluice/c_api/array_shape.h>
#include <sluice/c_experts.h>
#include <sluice/experts.h>

namespace sluice::c_api {

struct RouteCall {
  RouteOptions options{};
  RouteShape shape{};
  RouteArgs args{};
  int memory = kOnHost;
};
struct CombineCall {
  CombineOptions options{};
  CombineShape shape{};
  CombineArgs args{};
  int memory = kOnHost;
};

/// Checks that `x` holds row numbers: int32, without gaps, of `dimensions` dimensions.
Result<void> check_rows(const Named& x, int dimensions);

/// Errors: invalid_argument (a missing array), invalid_type, invalid_size, invalid_stride, wrong_device
/// (arrays in different memories).
Result<RouteCall> routing_of(const sluice_routing& what);
Result<CombineCall> combining_of(const sluice_combining& what);

}  // namespace sluice::c_api
