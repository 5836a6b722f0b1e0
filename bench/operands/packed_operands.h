// SPDX-License-Identifier: Apache-2.0
// Operands of packed products. The tuner measures many numbers of tokens with the same weights. Weights, and
// fp64 sums for kDistinctTokens tokens, are slow to make, so problems that follow each other share them.
// Further tokens repeat these. Their number is prime and above the largest tile, so an exchanged tile is
// found.
#pragma once

#include <optional>

#include <sluice/check/packed_check.h>

#include "bench/lab.h"
#include "bench/operands/operands.h"

namespace sluice::bench {

inline constexpr i64 kDistinctTokens = 257;
/// Elements of D that the tuner checks per candidate: some 4 ms on one CPU core.
inline constexpr i64 kCheckedElements = i64{1} << 15;

class PackedOperands final : public Operands {
 public:
  /// `lab` must outlive this. `checked_elements`: how many elements of D a check compares. With kAllElements
  /// it compares all, and also that the inputs are unchanged.
  explicit PackedOperands(const Lab& lab, i64 checked_elements = kCheckedElements)
      : lab_(lab), checked_elements_(checked_elements) {}

  /// Errors: those of gemm::plan, driver (memory), toolchain.
  Result<void> open(const Problem& problem);
  /// Frees the tokens and D. The weights are kept for the next problem.
  void close() { sets_.clear(); }

  int copies() const override { return static_cast<int>(sets_.size()); }
  std::vector<const void*> weights() const override;
  std::vector<Result<Contender>> prepare(std::span<const Plan> plans) override;
  Result<Comparison> check(const Contender& contender, const Plan& plan) override;
  Result<Comparison> check_exact(const Plan& plan) override;
  Result<void> run(const Problem& problem, Stream stream) const override;

  gemm::Args args(int copy) const;

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
  Problem problem_;                                   // with leading dimensions filled in
  std::optional<packed::DeviceData> source_, exact_;  // exact_: a smaller problem with whole numbers
  std::vector<Set> sets_;
  DeviceBuffer scale_x_, scale_d_, gamma_, c_;
  std::vector<i64> tokens_;  // indices of the checked tokens
  // For each checked token:
  std::vector<PackedSum> sums_;
  std::vector<u8> residual_;   // the token's row of C, without gaps
  std::vector<double> roots_;  // root mean squares for the norm
};

inline constexpr i64 kLeastTokens = 3;
/// Returns the tokens that a check compares: all, or the first, the last and some between, with about
/// `elements` outputs in total.
std::vector<i64> checked_tokens(i64 m, i64 n, i64 elements);

}  // namespace sluice::bench
