// SPDX-License-Identifier: Apache-2.0
// Are the products of a chain's arm right, each alone, and how far may its end be from that of another arm?
// Part of chain/session.h.
#pragma once

#include <sluice/chain.h>

#include "bench/chain/layers.h"
#include "bench/contender/contender.h"
#include "bench/lab.h"

namespace sluice::bench {

/// Launches every kernel of a product that the plan has, on operands of its own: whole numbers, then reals
/// (verify of sluice_contender.h; packed weights: whole numbers of a smaller problem). Error internal: one is
/// wrong, with what is. Other errors: driver, toolchain.
Result<void> check_products(const Lab& lab, const ChainPlan& plan);
/// Checks a peer's product so. `launch` makes the contender that runs on the given operands.
using OnOperands = std::function<Result<Contender>(std::span<const ProblemData> operands)>;
Result<void> check_product(const Lab& lab, const Problem& problem, const OnOperands& launch);

/// Returns how far two right arms are apart at the end, as a share of its root mean square: their roundings
/// to the tokens' type and to the residual stream are independent (docs/chains.md).
double predicted_distance(const LayerSpec& spec);
/// More is another computation.
double most_distance(const LayerSpec& spec);

}  // namespace sluice::bench
