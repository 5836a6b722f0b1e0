// SPDX-License-Identifier: Apache-2.0
// The named sets of problems that benches measure: products (dense and packed) and layers of convolutions.
// bench/shapes/conv_*.txt has the same layers for other programs.
#pragma once

#include <string>
#include <vector>

#include <sluice/result.h>
#include <sluice/spec/problem.h>

namespace sluice::bench {

std::vector<std::string> set_names();
/// Returns the problems of a named set. Error invalid_argument: there is no such set; the message lists them.
Result<std::vector<Problem>> problem_set(const std::string& name);

/// Sets of convolutions. The table is in bench/conv.cc.
std::vector<std::string> conv_set_names();
bool is_conv_set(const std::string& name);
/// Returns the layers of a set, each with this operation. Error invalid_argument: there is no such set; the
/// message lists them.
Result<std::vector<Conv>> conv_set(const std::string& name, ConvOp op);

/// A product with K-major operands without padding. With 16-bit inputs, all types are equal. With fp8 inputs
/// D is bf16, each operand has one scale, and accumulation is fast, as in the stored results of these sets.
Problem plain_problem(i64 m, i64 n, i64 k, DType input);
/// The product that computes `conv`. Types, epilogue, accumulation and order of adding are those of `said`.
/// Its member `conv` is set for a pointwise convolution too. Errors: those of conv::problem.
Result<Problem> conv_problem(const Conv& conv, const Problem& said);

}  // namespace sluice::bench
