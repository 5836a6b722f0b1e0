// SPDX-License-Identifier: Apache-2.0
// The named sets of problems that benches run over, dense and packed. Each set is one row of the table in
// shapes.cc.
#pragma once

#include <string>
#include <vector>

#include "bench/product.h"

namespace sluice::bench {

/// A plain product: K-major, packed rows, all types equal for 16 bits. An fp8 one gives bf16, has one scale
/// per operand, and keeps fast sums, as the stored results of these sets do.
Problem plain_problem(i64 m, i64 n, i64 k, DType input);

std::vector<std::string> set_names();
/// Error invalid_argument: no such set; the message lists them.
Result<std::vector<AnyProblem>> problem_set(const std::string& name);

/// "4096x4096x4096".
std::string shape_text(const Problem& problem);
/// "4096x4096x4096 e4m3 > bf16", then layouts, batch and epilogue where they are not plain. Convolutions:
/// "wgrad 32x64x56x56 * 64x3x3 padding 1 bf16 > bf16".
std::string problem_text(const Problem& problem);

/// Bytes that must move once: A, B, D and C.
double bytes_of_traffic(const Problem& problem);

}  // namespace sluice::bench
