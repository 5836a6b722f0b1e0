// SPDX-License-Identifier: Apache-2.0
// The companions of a chain's products: norms and quantisers, loaded for the overlap of their place. Called
// by chain.cc.
#pragma once

#include <sluice/host/chain.h>

namespace sluice {

Result<Norm> load_norm(const Device& device, const NormOptions& options);
Result<Quantizer> load_quantizer(const Device& device, const ChainPlan::QuantizerPlan& plan);
std::vector<std::string> companion_units(const ChainPlan& plan);

}  // namespace sluice
