// SPDX-License-Identifier: Apache-2.0
// Holds the operands of one problem at a time. Packed weights are kept for the next problem
// if it has the same.
#pragma once

#include <sluice/try.h>

#include "bench/operands/dense_operands.h"
#include "bench/operands/packed_operands.h"

namespace sluice::bench {

class OperandStore {
 public:
  /// `lab` must outlive this. `checked_elements`: elements of a packed product's D that a check compares.
  OperandStore(const Lab& lab, i64 checked_elements) : dense_(lab), packed_(lab, checked_elements) {}

  /// Closes the previous problem and makes operands for this one, whose strides must be filled in. Errors:
  /// those of gemm::plan, driver (out of memory), toolchain.
  Result<Operands*> open(const Problem& problem, Scalars scalars) {
    close();
    const bool packed = is_packed(problem);
    SLUICE_TRY(packed ? packed_.open(problem) : dense_.open(problem, scalars));
    return packed ? static_cast<Operands*>(&packed_) : &dense_;
  }
  void close() {
    dense_.close();
    packed_.close();
  }
  /// The operands of the open problem, which must be a dense product.
  DenseOperands& dense() { return dense_; }

 private:
  DenseOperands dense_;
  PackedOperands packed_;
};

}  // namespace sluice::bench
