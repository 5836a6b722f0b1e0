// SPDX-License-Identifier: Apache-2.0
// Two macros for functions that return a Result: both return the error of a call to the caller. Do not use
// them in lambdas without a return type, which would return an Error.
//   SLUICE_TRY(stream.synchronize());
//   SLUICE_TAKE(const gemm::Plan plan, gemm::plan(problem, device.info()));  // the value, not a Result
#pragma once

#include <utility>

#include <sluice/result.h>

#define SLUICE_JOIN_(a, b) a##b
#define SLUICE_JOIN(a, b) SLUICE_JOIN_(a, b)

/// Evaluates a Result and discards its value; returns from the function if it is an error.
#define SLUICE_TRY(...) \
  if (auto&& sluice_tried = (__VA_ARGS__); !sluice_tried) return sluice_tried.error()

/// Initialises `declaration` with the value of a Result; returns from the function if it is an error. It
/// expands to several statements, so it needs braces in the body of an `if`. A type with a comma in it needs
/// `auto`.
#define SLUICE_TAKE(declaration, ...) \
  SLUICE_TAKE_AS(SLUICE_JOIN(sluice_taken_, __LINE__), declaration, __VA_ARGS__)
#define SLUICE_TAKE_AS(result, declaration, ...) \
  auto result = (__VA_ARGS__);                   \
  if (!result) return result.error();            \
  declaration = *std::move(result)
