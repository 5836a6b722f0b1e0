// SPDX-License-Identifier: Apache-2.0
// Tells whether the layers of a config.json are of the kind that chains are made of. Called by model.cc.
#pragma once

#include <string>

#include <sluice/plan/text/json_text.h>

namespace sluice::bench {

/// Returns "" if the layers of `config` are dense: full-rank projections for queries, keys and values, then
/// silu(gate) * up. Otherwise returns the key that says so, with its value.
std::string why_not_dense_layers(const Json& config);

}  // namespace sluice::bench
