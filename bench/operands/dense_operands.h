// SPDX-License-Identifier: Apache-2.0
// Operands of dense products: random reals of about unit size, filled on the GPU (operands.cc).
#pragma once

#include <vector>

#include "bench/lab.h"
#include "bench/operands/operands.h"

namespace sluice::bench {

class DenseOperands final : public Operands {
 public:
  /// `lab` must outlive this.
  explicit DenseOperands(const Lab& lab) : lab_(lab) {}

  /// Makes operands for the problem, whose strides must be filled in. Errors: driver (out of memory).
  Result<void> open(const Problem& problem, Scalars scalars);
  void close() { sets_.clear(); }

  std::span<ProblemData> sets() { return sets_; }
  int copies() const override { return static_cast<int>(sets_.size()); }
  std::vector<const void*> weights() const override;
  std::vector<Result<Contender>> prepare(std::span<const Plan> plans) override;
  /// Also checks whole numbers, as verify() of sluice_contender.h does.
  Result<Comparison> check(const Contender& contender, const Plan& plan) override;
  Result<Comparison> check_exact(const Plan&) override { return Comparison{}; }
  Result<void> run(const Problem& problem, Stream stream) const override;

 private:
  const Lab& lab_;
  std::vector<ProblemData> sets_;
};

}  // namespace sluice::bench
