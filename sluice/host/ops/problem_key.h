// SPDX-License-Identifier: Apache-2.0
// The key of kept kernels: one form for all spellings of a product, so that a kernel prepared under another
// spelling is found.
#pragma once

#include <vector>

#include <sluice/gemm.h>
#include <sluice/packed.h>

namespace sluice {

Problem key_of(const Problem& problem);
PackedProblem key_of(const PackedProblem& problem);

/// `problem` with `unaligned` set where an address needs it. A convolution's operands, and fp8 A and B, must
/// be aligned whatever is planned: for these nothing changes.
Problem at_addresses(Problem problem, const gemm::Args& args);

/// Hashes a key. Each op whose kernels are kept has a key_hash().
std::size_t key_hash(const Problem& problem);
std::size_t key_hash(const PackedProblem& problem);
struct KeyHash {
  template <class P>
  std::size_t operator()(const P& problem) const {
    return key_hash(problem);
  }
};

/// Returns the key without its m and without packed strides, so that all m of a range with one layout share
/// it. One row has two spellings: its scale is one value, or one for each row.
std::vector<Problem> row_forms(const Problem& problem);
std::vector<PackedProblem> row_forms(const PackedProblem& problem);

}  // namespace sluice
