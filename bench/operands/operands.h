// SPDX-License-Identifier: Apache-2.0
// The operands of one problem on the GPU, in several sets. Successive launches use different sets, so that
// weights are not in L2. Makes contenders from plans and checks D. Each kind of product has its own class
// (dense_operands.h, packed_operands.h). Used by bench, tune, rows and `verify --records`.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include <sluice/bench/request.h>
#include <sluice/check/verify.h>

#include "bench/contender/contender.h"

namespace sluice::bench {

struct Scalars {
  float alpha = 1.0f, beta = 0.0f;
};
Scalars scalars_of(const Request& request);

class Operands {
 public:
  virtual ~Operands() = default;

  virtual int copies() const = 0;
  /// Addresses of the weights, one per operand set: of B, or of the blob.
  virtual std::vector<const void*> weights() const = 0;
  /// Compiles and loads the kernels of the plans; result i belongs to plan i. The contenders refer to the
  /// operands, which must outlive them.
  virtual std::vector<Result<Contender>> prepare(std::span<const Plan> plans) = 0;
  /// Runs the contender on operand set 0 and checks D against the error bounds for real numbers.
  virtual Result<Comparison> check(const Contender& contender, const Plan& plan) = 0;
  /// Runs the plan's kernel on whole numbers and checks every bit. Does nothing if check() has done that.
  virtual Result<Comparison> check_exact(const Plan& plan) = 0;
  /// Calls gemm::run on operand set 0. The problem may have fewer rows than the open one.
  virtual Result<void> run(const Problem& problem, Stream stream) const = 0;
};

/// Compiles and loads plans. `contender_of` makes a contender from a kernel.
template <class ContenderOf>
std::vector<Result<Contender>> contenders_of(const Device& device, std::span<const Plan> plans,
                                             const ContenderOf& contender_of) {
  std::vector<Result<Contender>> contenders;
  for (const Result<gemm::Kernel>& kernel : gemm::prepare(device, plans))
    contenders.push_back(kernel ? Result<Contender>(contender_of(*kernel)) : kernel.error());
  return contenders;
}

/// Tells checks to compare all elements of D. With a smaller number they compare the first and the last token
/// and some between.
inline constexpr i64 kAllElements = std::numeric_limits<i64>::max();

/// Runs both checks. Returns the comparison on whole numbers if that failed, else the one on real numbers.
Result<Comparison> judged(Operands& operands, const Contender& contender, const Plan& plan);

/// Returns "" if D is right, else what is wrong. A comparison that read no element of D counts as wrong,
/// unless D is empty.
Result<std::string> verdict_on(const Result<Comparison>& found, bool is_empty);

}  // namespace sluice::bench
