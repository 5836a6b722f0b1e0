// SPDX-License-Identifier: Apache-2.0
#include <sluice/host/chain_companions.h>

#include <sluice/host/quantize_units.h>

namespace sluice {

Result<Norm> load_norm(const Device&, const NormOptions&) {
  return Error{ErrorCode::invalid_argument, "norms have no kernel in this build yet: leave the step out"};
}

Result<Quantizer> load_quantizer(const Device& device, const ChainPlan::QuantizerPlan& plan) {
  if (plan.overlap != Overlap{})
    return Error{ErrorCode::invalid_argument,
                 "quantisers have no overlap in this build yet: give the step Overlap{}"};
  return Quantizer::create(device, plan.input, plan.granularity, plan.gate);
}

std::vector<std::string> companion_units(const ChainPlan& plan) {
  std::vector<std::string> units;
  for (const ChainPlan::QuantizerPlan& q : plan.quantizers)
    for (std::string& unit : quantize_units(q.input, q.granularity, q.gate)) units.push_back(std::move(unit));
  return units;
}

}  // namespace sluice
