// SPDX-License-Identifier: Apache-2.0
// The operands of one problem at a time, of either kind. Packed weights stay for the next problem that has
// them.
#pragma once

#include <sluice/try.h>

#include "bench/operands/dense_operands.h"
#include "bench/operands/packed_operands.h"

namespace sluice::bench {

class OperandStore {
 public:
  /// `lab` must outlive this. `checked_elements` limits the checked part of a packed product's D.
  OperandStore(const Lab& lab, i64 checked_elements) : dense_(lab), packed_(lab, checked_elements) {}

  /// Closes the problem before and opens this one, whose strides must be filled in. Errors: those of
  /// packed::plan, driver (memory), toolchain.
  Result<Operands*> open(const AnyProblem& problem, Scalars scalars, const Conv& conv = {}) {
    close();
    const auto* packed = std::get_if<PackedProblem>(&problem);
    SLUICE_TRY(packed != nullptr ? packed_.open(*packed)
                                 : dense_.open(std::get<Problem>(problem), scalars, conv));
    return packed != nullptr ? static_cast<Operands*>(&packed_) : &dense_;
  }
  void close() {
    dense_.close();
    packed_.close();
  }
  /// The open operands, if the product is dense.
  DenseOperands& dense() { return dense_; }

 private:
  DenseOperands dense_;
  PackedOperands packed_;
};

}  // namespace sluice::bench
