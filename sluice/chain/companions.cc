// SPDX-License-Identifier: Apache-2.0
#include <sluice/chain/companions.h>

#include <sluice/host/text/norm_units.h>
#include <sluice/host/text/quantize_units.h>

namespace sluice {
std::vector<std::string> companion_units(const ChainPlan& plan) {
  std::vector<std::string> units;
  for (const NormOptions& options : plan.norms)
    for (std::string& unit : norm_units(options)) units.push_back(std::move(unit));
  for (const QuantizerOptions& q : plan.quantizers)
    for (std::string& unit : quantize_units(q.input, q.granularity, q.gate, q.overlap))
      units.push_back(std::move(unit));
  return units;
}

}  // namespace sluice
