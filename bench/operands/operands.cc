// SPDX-License-Identifier: Apache-2.0
#include "bench/operands/operands.h"

#include <sluice/bench/record.h>
#include <sluice/try.h>

#include "bench/contender/sluice_contender.h"
#include "bench/operands/dense_operands.h"

namespace sluice::bench {

Scalars scalars_of(const Request& request) {
  return {request.alpha, request.beta};
}

Result<Comparison> judged(Operands& operands, const Contender& contender, const Plan& plan) {
  const Result<Comparison> exact = operands.check_exact(plan);
  if (!exact || !exact->passed()) return exact;
  return operands.check(contender, plan);
}

Result<std::string> verdict_on(const Result<Comparison>& found, bool is_empty) {
  if (!found) return found.error();
  if (found->verdict() == Verdict::not_judged) return Error{ErrorCode::internal, describe(*found)};
  if (!found->passed()) return describe(*found);
  if (found->checked == 0 && !is_empty)
    return Error{ErrorCode::internal, "the verifier looked at no element"};
  return std::string();
}

Result<void> DenseOperands::open(const Problem& problem, Scalars scalars) {
  SLUICE_TAKE(std::vector<ProblemData> sets, make_copies(lab_, problem, scalars));
  sets_ = std::move(sets);
  return {};
}

std::vector<const void*> DenseOperands::weights() const {
  std::vector<const void*> all;
  for (const ProblemData& set : sets_) all.push_back(set.args().b);
  return all;
}

std::vector<Result<Contender>> DenseOperands::prepare(std::span<const Plan> plans) {
  return contenders_of(lab_.device, plans, [&](const gemm::Kernel& kernel) {
    return sluice_contender(lab_, kernel, sets_, kSluice);
  });
}

Result<Comparison> DenseOperands::check(const Contender& contender, const Plan&) {
  return verify(lab_, contender, sets_[0]);
}

Result<void> DenseOperands::run(const Problem& problem, Stream stream) const {
  gemm::Args args = sets_[0].args();
  args.workspace = lab_.workspace.view();
  return gemm::run(lab_.device, problem, args, stream);
}

}  // namespace sluice::bench
