// SPDX-License-Identifier: Apache-2.0
// See chain.h.
#include <sluice/twin/chain.h>

#include <sluice/twin/search.h>

namespace sluice::twin {

Exploration explore_chain(const std::vector<ChainLaunch>& chain, const ChainRules& rules) {
  Exploration result;
  search_all(ChainModel(chain, rules), {.max_states = kMostChainStates}, result);
  return result;
}

}  // namespace sluice::twin
