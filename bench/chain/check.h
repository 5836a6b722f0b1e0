// SPDX-License-Identifier: Apache-2.0
// Checks each product of a variant separately, and bounds the distance between the results of two variants.
// Part of chain/session.h.
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

/// Returns the expected distance between the final results of two correct variants, relative to their root
/// mean square. Their roundings to the tokens' type and to the residual stream are independent
/// (docs/chains.md).
double predicted_distance(const LayerSpec& spec);
/// Returns the largest distance that rounding can explain.
double most_distance(const LayerSpec& spec);

}  // namespace sluice::bench
