// SPDX-License-Identifier: Apache-2.0
// Explores chains of overlapping launches. It checks every interleaving of a few launches of one or two CTAs
// against the contract of spec/overlap.h. launch_lists.h gives the events of each launch; those of the dense
// kernel are recorded.
//   explore_chain({launch_of(gemm_lists(recording), {.name = "qkv", .edge = Edge::stream, .output = "y"}),
//                  launch_of(norm_lists(overlap), {.name = "norm", .tokens = "y", .output = "z"})});
#pragma once

#include <sluice/twin/chain_model.h>
#include <sluice/twin/explore.h>

namespace sluice::twin {

inline constexpr i64 kMostChainStates = 5'000'000;

/// Explores `chain`, which has at most 32 launches of at least one CTA each. The first launch begins
/// immediately, whatever its edge.
Exploration explore_chain(const std::vector<ChainLaunch>& chain, const ChainRules& rules = {});

}  // namespace sluice::twin
