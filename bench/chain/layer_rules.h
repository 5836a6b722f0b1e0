// SPDX-License-Identifier: Apache-2.0
// Whether a config.json describes layers of the kind that a chain is made of. Called by model.cc.
#pragma once

#include <string>

#include <sluice/tools.h>

namespace sluice::bench {

/// "": the layers of `config` are dense: full-rank projections for queries, keys and values, then
/// silu(gate) * up. Else the key that says otherwise, and its value.
std::string why_not_dense_layers(const Json& config);

}  // namespace sluice::bench
