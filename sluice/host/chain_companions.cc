// SPDX-License-Identifier: Apache-2.0
#include <sluice/host/chain_companions.h>

#include <sluice/host/norm_units.h>
#include <sluice/host/quantize_units.h>

namespace sluice {
namespace {

/// square_block, which Norm::create refuses, has no unit.
NormStore store_of(const NormOptions& options) {
  if (options.quantize == Granularity::tensor) return NormStore::tensor;
  if (options.quantize == Granularity::row) return NormStore::row;
  if (options.quantize == Granularity::row_block) return NormStore::row_block;
  return NormStore::plain;
}

}  // namespace

Result<Norm> load_norm(const Device& device, const NormOptions& options) {
  return Norm::create(device, options);
}

Result<Quantizer> load_quantizer(const Device& device, const ChainPlan::QuantizerPlan& plan) {
  return Quantizer::create(device, plan.input, plan.granularity, plan.gate, plan.overlap);
}

std::vector<std::string> companion_units(const ChainPlan& plan) {
  std::vector<std::string> units;
  for (const NormOptions& options : plan.norms)
    for (std::string& unit : norm_units(options.input, store_of(options), options.overlap))
      units.push_back(std::move(unit));
  for (const ChainPlan::QuantizerPlan& q : plan.quantizers)
    for (std::string& unit : quantize_units(q.input, q.granularity, q.gate, q.overlap))
      units.push_back(std::move(unit));
  return units;
}

}  // namespace sluice
