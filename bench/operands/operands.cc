// SPDX-License-Identifier: Apache-2.0
#include "bench/operands/operands.h"

namespace sluice::bench {

Scalars scalars_of(const Request& request) {
  return std::visit([](const auto& r) { return Scalars{r.alpha, r.beta}; }, request);
}

Result<Comparison> judged(Operands& operands, const Contender& contender, const AnyPlan& plan) {
  const Result<Comparison> exact = operands.check_exact(plan);
  if (!exact || !exact->passed()) return exact;
  return operands.check(contender, plan);
}

Result<std::string> verdict_on(const Result<Comparison>& found, bool is_empty) {
  if (!found) return found.error();
  if (!found->passed()) return describe(*found);
  if (found->checked == 0 && !is_empty)
    return Error{ErrorCode::internal, "the verifier looked at no element"};
  return std::string();
}

}  // namespace sluice::bench
