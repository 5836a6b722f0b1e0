// SPDX-License-Identifier: Apache-2.0
// Convolutions: what they compute and move, and the named sets that benches run over. The layers of a set are
// also lines of bench/shapes/conv_*.txt, for other programs.
#pragma once

#include <string>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/problem.h>

namespace sluice::bench {

/// The product of `conv` with the types, epilogue, sums and order of `said`. Errors: those of conv::problem.
Result<Problem> conv_problem(const Conv& conv, const Problem& said);

/// Floating-point operations: two for each image, pixel of y, tap, channel and filter, padding included.
double conv_flops(const Conv& conv);

/// Elements of the operands of the product.
struct ConvElements {
  i64 a = 0, b = 0, d = 0;
};
/// Counts what must move once. x has at most the pixels that a tap can read: a 1x1 filter with stride 2 reads
/// a quarter of them. dgrad writes all of dx.
ConvElements conv_elements(const Conv& conv);

/// Elements from the first of an operand to past its last, pitches between pixels included.
ConvElements conv_spans(const Conv& conv);

std::vector<std::string> conv_set_names();
bool is_conv_set(const std::string& name);
/// The layers of a set as convolutions of `op`. Error invalid_argument: no such set; the message lists them.
Result<std::vector<Conv>> conv_set(const std::string& name, ConvOp op);

}  // namespace sluice::bench
