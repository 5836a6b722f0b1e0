// SPDX-License-Identifier: Apache-2.0
// The operands of the problem that the tuner works on: what its plans are made into and judged by. One kind
// of product, one class: dense ones (tune/gpu.cc), packed weights (packed_operands.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include <sluice/check/verify.h>

#include "bench/contender/contender.h"
#include "bench/product.h"

namespace sluice::bench {

class TuneOperands {
 public:
  virtual ~TuneOperands() = default;

  /// Sets of them, that launches rotate over.
  virtual int copies() const = 0;
  /// Compiles and loads; the i-th answer belongs to the i-th plan. Contenders borrow the operands.
  virtual std::vector<Result<Contender>> prepare(std::span<const AnyPlan> plans) = 0;
  /// Runs it on set 0 and judges D.
  virtual Result<Comparison> check(const Contender& contender, const AnyPlan& plan) = 0;
  /// Runs the plan's kernel on whole numbers, of which no bit may be wrong.
  virtual Result<Comparison> check_exact(const AnyPlan& plan) = 0;
};

/// "": D is right; else what is wrong with it. A comparison must have looked at something.
Result<std::string> verdict_on(const Result<Comparison>& found, bool is_empty);

}  // namespace sluice::bench
