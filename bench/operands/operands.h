// SPDX-License-Identifier: Apache-2.0
// The operands of one problem on the GPU: sets that launches rotate over, so that L2 holds no weights; what
// plans are made into, and what judges a D. One class a kind of product (dense_operands.h,
// packed_operands.h). Used by bench, tune, rows and `verify --records`.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include <sluice/check/verify.h>

#include "bench/contender/contender.h"
#include "bench/product.h"

namespace sluice::bench {

struct Scalars {
  float alpha = 1.0f, beta = 0.0f;
};
Scalars scalars_of(const Request& request);

class Operands {
 public:
  virtual ~Operands() = default;

  virtual int copies() const = 0;
  /// Where the weights of each copy lie: B, or the blob.
  virtual std::vector<const void*> weights() const = 0;
  /// Compiles and loads; the i-th answer belongs to the i-th plan. Contenders borrow the operands.
  virtual std::vector<Result<Contender>> prepare(std::span<const AnyPlan> plans) = 0;
  /// Lets the contender compute copy 0 and judges D: reals have bounds.
  virtual Result<Comparison> check(const Contender& contender, const AnyPlan& plan) = 0;
  /// Runs the plan's kernel on whole numbers, of which no bit may be wrong; looks at nothing where check()
  /// does that too.
  virtual Result<Comparison> check_exact(const AnyPlan& plan) = 0;
  /// gemm::run or packed::run on copy 0 of a problem that differs in m alone, and has no more rows.
  virtual Result<void> run(const AnyProblem& problem, Stream stream) const = 0;
};

/// Compiles and loads plans of one kind; `contender_of` makes a contender of a kernel.
template <class ItsPlan, class ContenderOf>
std::vector<Result<Contender>> contenders_of(const Device& device, std::span<const AnyPlan> plans,
                                             const ContenderOf& contender_of) {
  std::vector<ItsPlan> own;
  for (const AnyPlan& plan : plans) own.push_back(std::get<ItsPlan>(plan));
  std::vector<Result<Contender>> contenders;
  const auto take = [&](const auto& kernels) {
    for (const auto& kernel : kernels)
      contenders.push_back(kernel ? Result<Contender>(contender_of(*kernel)) : kernel.error());
  };
  if constexpr (std::is_same_v<ItsPlan, Plan>)
    take(gemm::prepare(device, own));
  else
    take(packed::prepare(device, own));
  return contenders;
}

/// A check looks at all elements of D, unless a number is given: enough then for the first tokens, the last
/// and some between.
inline constexpr i64 kAllElements = std::numeric_limits<i64>::max();

/// What whole numbers say if they say no, else what reals do.
Result<Comparison> judged(Operands& operands, const Contender& contender, const AnyPlan& plan);

/// "": D is right; else what is wrong with it. A comparison must have looked at something.
Result<std::string> verdict_on(const Result<Comparison>& found, bool is_empty);

}  // namespace sluice::bench
