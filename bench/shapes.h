// SPDX-License-Identifier: Apache-2.0
// The named sets of problems that benches measure, dense and packed. Each set is one row of the table in
// shapes.cc.
#pragma once

#include <string>
#include <vector>

#include "bench/product.h"

namespace sluice::bench {

/// A product with K-major operands without padding. With 16-bit inputs, all types are equal. With fp8 inputs
/// D is bf16, each operand has one scale, and accumulation is fast, as in the stored results of these sets.
Problem plain_problem(i64 m, i64 n, i64 k, DType input);

std::vector<std::string> set_names();
/// Returns the problems of a named set. Error invalid_argument: there is no such set; the message lists them.
Result<std::vector<Problem>> problem_set(const std::string& name);

/// Returns for example "4096x4096x4096".
std::string shape_text(const Problem& problem);
/// Returns for example "4096x4096x4096 e4m3 > bf16", then layouts, batch and epilogue if they are not the
/// defaults. A convolution: "wgrad 32x64x56x56 * 64x3x3 padding 1 bf16 > bf16".
std::string problem_text(const Problem& problem);

/// Bytes of A, B, C and D that must move at least once.
double dense_traffic(const Problem& problem);

}  // namespace sluice::bench
