// SPDX-License-Identifier: Apache-2.0
// The JIT units of a chain's companions, norms and quantisers. Called by chain.cc.
#pragma once

#include <sluice/chain/chain.h>

namespace sluice {

std::vector<std::string> companion_units(const ChainPlan& plan);

}  // namespace sluice
