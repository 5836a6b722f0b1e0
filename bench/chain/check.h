// SPDX-License-Identifier: Apache-2.0
// Checks each product of a variant separately, and bounds the distance between the results of two variants.
// Part of sluice/bench/chain.h.
#pragma once

#include <sluice/chain.h>

#include "bench/chain/layers.h"
#include "bench/contender/contender.h"
#include "bench/lab.h"

namespace sluice::bench {

/// Launches each kernel of the plan's products on operands of its own: first whole numbers, then real numbers
/// (verify() of sluice_contender.h). Packed products run on whole numbers of a smaller problem. Error
/// internal: a product is wrong; the message says which. Other errors: driver, toolchain.
Result<void> check_products(const Lab& lab, const ChainPlan& plan);
/// Checks a product of cuBLASLt in the same way. `launch` makes the contender that runs on the given
/// operands.
using OnOperands = std::function<Result<Contender>(std::span<const ProblemData> operands)>;
Result<void> check_product(const Lab& lab, const Problem& problem, const OnOperands& launch);

/// Returns the expected distance between the final results of two correct variants: RMS of the difference
/// over RMS of the result. Assumes that their roundings to the tokens' type and to the residual stream are
/// independent (docs/chains.md).
double predicted_distance(const LayerSpec& spec);
/// Returns the largest distance that rounding errors can explain.
double most_distance(const LayerSpec& spec);

}  // namespace sluice::bench
