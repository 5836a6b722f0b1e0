// SPDX-License-Identifier: Apache-2.0
// Convolutions: their operations and traffic, and the named sets that benches measure. The layers of a set
// are also in bench/shapes/conv_*.txt, for other programs.
#pragma once

#include <string>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/problem.h>

namespace sluice::bench {

/// The product that computes `conv`. Types, epilogue, accumulation and layout order are those of `said`.
/// Errors: those of conv::problem.
Result<Problem> conv_problem(const Conv& conv, const Problem& said);

/// Floating-point operations: two for each combination of image, pixel of y, tap, channel and filter, padding
/// included.
double conv_flops(const Conv& conv);

/// Numbers of elements of the product's operands.
struct ConvElements {
  i64 a = 0, b = 0, d = 0;
};
/// Counts the elements that must move at least once. Of x, only pixels that some tap reads count: a 1x1
/// filter with stride 2 reads a quarter of them. dgrad writes all of dx.
ConvElements conv_elements(const Conv& conv);

/// For each operand, the elements from its first to its last, gaps between pixels included.
ConvElements conv_spans(const Conv& conv);

std::vector<std::string> conv_set_names();
bool is_conv_set(const std::string& name);
/// The layers of a named set, as convolutions of `op`. Error invalid_argument: there is no such set; the
/// message lists them.
Result<std::vector<Conv>> conv_set(const std::string& name, ConvOp op);

}  // namespace sluice::bench
