// SPDX-License-Identifier: Apache-2.0
// One form of what is the same product: what kernels are kept under, so that what was prepared in another
// spelling is found.
#pragma once

#include <vector>

#include <sluice/gemm.h>
#include <sluice/mixed.h>

namespace sluice {

Problem key_of(const Problem& problem);
MixedProblem key_of(const MixedProblem& problem);

/// The key without its m, and without strides that are packed: equal for all m of a range that lie alike in
/// memory. One row may be spelled in two ways (its scale is one value, or one for each row).
std::vector<Problem> row_forms(const Problem& problem);
std::vector<MixedProblem> row_forms(const MixedProblem& problem);

}  // namespace sluice
