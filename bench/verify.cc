// SPDX-License-Identifier: Apache-2.0
// Implements sluice/bench/verify.h with the tuner's machine, which makes one set of operands per problem.
#include <sluice/bench/verify.h>

#include <sluice/check/packed_check.h>
#include <sluice/check/verify_units.h>
#include <sluice/plan/text/pack_units.h>
#include <sluice/try.h>

#include "bench/tune/gpu.h"

namespace sluice::bench {

Result<Verified> verify(const Lab& lab, const Plan& plan) {
  GpuTuneMachine machine(lab);
  SLUICE_TRY(machine.open(plan.problem));
  const std::vector<Result<int>> prepared = machine.prepare(std::span(&plan, 1));
  if (!prepared[0]) return prepared[0].error();
  SLUICE_TAKE(const Comparison found, machine.compare(*prepared[0]));
  if (found.checked == 0 && !has_no_product(plan.problem))
    return Error{ErrorCode::internal, "the verifier looked at no element"};
  const Verdict verdict = found.verdict();
  return Verified{.finding = verdict == Verdict::right   ? Finding::right
                             : verdict == Verdict::wrong ? Finding::wrong
                                                         : Finding::not_judged,
                  .elements = found.checked,
                  .element_share = found.worst_ratio,
                  .norm_share = found.norm_ratio,
                  .mean_share = found.mean_ratio,
                  .text = describe(found)};
}

std::vector<std::string> verifier_units(const Problem& problem) {
  std::vector<std::string> units{verify_unit_text(VerifyUnit::fill), verify_unit_text(VerifyUnit::check)};
  if (!is_packed(problem)) return units;
  units.push_back(packed::reference_unit_text());
  for (const CodeStorage codes : {CodeStorage::byte, CodeStorage::nibble})
    if (codes == CodeStorage::byte || code_bits(problem.b.packed.type) == 4)
      units.push_back(pack_unit_text({.format = problem.b.packed, .codes = codes}));
  return units;
}

}  // namespace sluice::bench
