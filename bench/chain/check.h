// SPDX-License-Identifier: Apache-2.0
// Checks each product of an arm by itself, and bounds how far an arm's result may be from another arm's. Part
// of chain/session.h.
#pragma once

#include <sluice/chain.h>

#include "bench/chain/layers.h"
#include "bench/contender/contender.h"
#include "bench/lab.h"

namespace sluice::bench {

/// Launches each kernel of the plan's products on operands of its own: whole numbers, then reals (verify of
/// sluice_contender.h); packed ones on whole numbers of a smaller problem. Error internal: one is wrong, and
/// where. Other errors: driver, toolchain.
Result<void> check_products(const Lab& lab, const ChainPlan& plan);
/// Checks a peer's product in this way. `launch` makes the contender that runs on the given operands.
using OnOperands = std::function<Result<Contender>(std::span<const ProblemData> operands)>;
Result<void> check_product(const Lab& lab, const Problem& problem, const OnOperands& launch);

/// The expected distance of two right arms at the end, as a share of its root mean square. Their roundings to
/// the tokens' type and to the residual stream are independent (docs/chains.md).
double predicted_distance(const LayerSpec& spec);
/// The largest distance that roundings explain.
double most_distance(const LayerSpec& spec);

}  // namespace sluice::bench
