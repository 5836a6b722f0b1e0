// SPDX-License-Identifier: Apache-2.0
// One form of what is the same product: what kernels are kept under, so that what was prepared in another
// spelling is found.
#pragma once

#include <vector>

#include <sluice/gemm.h>
#include <sluice/packed.h>

namespace sluice {

Problem key_of(const Problem& problem);
PackedProblem key_of(const PackedProblem& problem);

/// Hashes what an op's kernels are kept by: each has a key_hash().
std::size_t key_hash(const Problem& problem);
std::size_t key_hash(const PackedProblem& problem);
struct KeyHash {
  template <class P>
  std::size_t operator()(const P& problem) const {
    return key_hash(problem);
  }
};

/// The key without its m, and without strides that are packed: equal for all m of a range that lie alike in
/// memory. One row may be spelled in two ways (its scale is one value, or one for each row).
std::vector<Problem> row_forms(const Problem& problem);
std::vector<PackedProblem> row_forms(const PackedProblem& problem);

}  // namespace sluice
