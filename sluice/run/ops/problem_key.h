// SPDX-License-Identifier: Apache-2.0
// The key under which run() keeps kernels. Equivalent spellings of a product have one key, so a kernel that
// was prepared under one spelling is found under another.
#pragma once

#include <vector>

#include <sluice/gemm.h>

namespace sluice {

Problem key_of(const Problem& problem);

/// Returns `problem` with `unaligned` set for each operand whose address TMA cannot use. Convolutions,
/// packed weights, and fp8 A and B have no kernel for such addresses; their flags stay as they are.
Problem at_addresses(Problem problem, const gemm::Args& args);

/// Hashes a key. Every op whose kernels run() keeps has a key_hash().
std::size_t key_hash(const Problem& problem);
struct KeyHash {
  template <class P>
  std::size_t operator()(const P& problem) const {
    return key_hash(problem);
  }
};

/// Returns the key without m and without packed strides: all m of a prepared range with one layout share it.
/// If m is 1 there are two: the scale of a single row may be one value, or a vector.
std::vector<Problem> row_forms(const Problem& problem);

}  // namespace sluice
