// SPDX-License-Identifier: Apache-2.0
#include <sluice/host/chain_companions.h>

#include <sluice/host/quantize_units.h>

namespace sluice {

// Until norms have a kernel.
Result<Norm> Norm::create(const Device&, const NormOptions&) {
  return Error{ErrorCode::invalid_argument, "norms have no kernel in this build yet: leave the step out"};
}
Result<void> Norm::launch(const NormShape&, const NormArgs&, Stream) const {
  return Error{ErrorCode::invalid_argument, "norms have no kernel in this build yet: leave the step out"};
}

Result<Norm> load_norm(const Device& device, const NormOptions& options) {
  return Norm::create(device, options);
}

Result<Quantizer> load_quantizer(const Device& device, const ChainPlan::QuantizerPlan& plan) {
  return Quantizer::create(device, plan.input, plan.granularity, plan.gate, plan.overlap);
}

std::vector<std::string> companion_units(const ChainPlan& plan) {
  std::vector<std::string> units;
  for (const ChainPlan::QuantizerPlan& q : plan.quantizers)
    for (std::string& unit : quantize_units(q.input, q.granularity, q.gate, q.overlap))
      units.push_back(std::move(unit));
  return units;
}

}  // namespace sluice
