// SPDX-License-Identifier: Apache-2.0
// Two statements for functions that return a Result: both hand the error of a call on to the caller. Do not
// use them in lambdas without a return type, which would return an Error.
//   SLUICE_TRY(stream.synchronize());
//   SLUICE_TAKE(const gemm::Plan plan, gemm::plan(problem, device.info()));  // the value, not a Result
#pragma once

#include <utility>

#include <sluice/result.h>

#define SLUICE_JOIN_(a, b) a##b
#define SLUICE_JOIN(a, b) SLUICE_JOIN_(a, b)

/// Evaluates a Result and drops its value; returns its error, if it has one.
#define SLUICE_TRY(...) \
  if (auto&& sluice_tried = (__VA_ARGS__); !sluice_tried) return sluice_tried.error()

/// Initialises `declaration` with the value of a Result; returns its error, if it has one. It is two
/// statements: not for the body of an `if` without braces. A type with a comma in it needs `auto`.
#define SLUICE_TAKE(declaration, ...) \
  SLUICE_TAKE_AS(SLUICE_JOIN(sluice_taken_, __LINE__), declaration, __VA_ARGS__)
#define SLUICE_TAKE_AS(result, declaration, ...) \
  auto result = (__VA_ARGS__);                   \
  if (!result) return result.error();            \
  declaration = *std::move(result)
