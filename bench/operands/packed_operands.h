// SPDX-License-Identifier: Apache-2.0
// Operands of products of packed weights. The tuner measures many numbers of tokens with the same weights:
// what is slow to make (weights, and fp64 sums of kDistinctTokens tokens) is made once for all problems that
// share it, so lists of problems do well to name them one after the other. More tokens than that repeat them:
// a prime number, above the largest tile, so that a tile taken for another shows.
#pragma once

#include <optional>

#include <sluice/check/packed_check.h>

#include "bench/lab.h"
#include "bench/operands/operands.h"

namespace sluice::bench {

inline constexpr i64 kDistinctTokens = 257;
/// What the tuner looks at for each candidate: some 4 ms of a core.
inline constexpr i64 kCheckedElements = i64{1} << 15;

class PackedOperands final : public Operands {
 public:
  /// `lab` outlives it. `checked_elements`: of D, that a check looks at; kAllElements: all, and the inputs
  /// too, which must be what they were.
  explicit PackedOperands(const Lab& lab, i64 checked_elements = kCheckedElements)
      : lab_(lab), checked_elements_(checked_elements) {}

  /// Errors: those of packed::plan, driver (memory), toolchain.
  Result<void> open(const PackedProblem& problem);
  /// Frees the tokens and D; weights stay for the next problem.
  void close() { sets_.clear(); }

  int copies() const override { return static_cast<int>(sets_.size()); }
  std::vector<const void*> weights() const override;
  std::vector<Result<Contender>> prepare(std::span<const AnyPlan> plans) override;
  Result<Comparison> check(const Contender& contender, const AnyPlan& plan) override;
  Result<Comparison> check_exact(const AnyPlan& plan) override;
  Result<void> run(const AnyProblem& problem, Stream stream) const override;

  packed::Args args(int copy) const;

 private:
  struct Set {
    DeviceBuffer x, d;
  };
  Result<void> open_source();
  Result<void> open_sets();
  Result<void> open_scales();
  Result<void> open_norm_and_residual();
  Result<void> open_exact();
  std::vector<u8> scales_of(const std::vector<i64>& tokens) const;
  Result<std::vector<u8>> read_sample() const;
  Result<bool> inputs_changed() const;
  bool checks_all() const { return checked_elements_ == kAllElements; }

  const Lab& lab_;
  i64 checked_elements_;
  PackedProblem problem_;                             // leading dimensions filled in
  std::optional<packed::DeviceData> source_, exact_;  // exact_: of whole numbers, a smaller problem
  std::vector<Set> sets_;
  DeviceBuffer scale_x_, scale_d_, gamma_, c_;
  std::vector<i64> tokens_;  // that are looked at
  // Of those:
  std::vector<PackedSum> sums_;
  std::vector<u8> residual_;   // rows of C, one behind the other
  std::vector<double> roots_;  // of a norm
};

inline constexpr i64 kLeastTokens = 3;
/// Tokens of m that a check looks at: all, or the first, the last and some between, so that they have not
/// many more outputs than `elements`.
std::vector<i64> checked_tokens(i64 m, i64 n, i64 elements);

}  // namespace sluice::bench
