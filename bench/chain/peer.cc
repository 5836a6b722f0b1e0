// SPDX-License-Identifier: Apache-2.0
// Products are identified by position: each layer has four, in the order of LayerProduct.
#include "bench/chain/peer.h"

#include <fmt/format.h>

#include <sluice/chain/chain.h>
#include <sluice/try.h>

#include "bench/chain/check.h"
#include "bench/race.h"

namespace sluice::bench {
namespace {

/// Checks one cuBLASLt algorithm on operands made for the check.
Result<void> check_algorithm(const Lab& lab, const Problem& problem, const std::string& name) {
  return check_product(lab, problem, [&](std::span<const ProblemData> operands) -> Result<Contender> {
    SLUICE_TAKE(const auto peer, CublasLtProblem::create(lab, operands));
    for (int i = 0; i < peer->algorithms(); ++i)
      if (peer->algorithm_text(i) == name) return cublaslt_contender(peer, i, name);
    return Error{ErrorCode::internal, fmt::format("{} is not offered for other operands of this size", name)};
  });
}

}  // namespace

Result<ChainPeer> ChainPeer::create(const Lab& lab, const ChainData& data) {
  if (data.spec().weights == LayerWeights::int4)
    return Error{ErrorCode::invalid_type, "cuBLASLt has no products of packed weights"};
  ChainPeer peer(lab);
  peer.layers_ = data.spec().layers;
  for (size_t which = 0; which < kLayerProducts; ++which) {
    const auto operands = data.operands(static_cast<LayerProduct>(which));
    SLUICE_TAKE(const auto problem, CublasLtProblem::create(lab, operands));
    std::vector<Entrant> entrants;
    for (int i = 0; i < problem->algorithms(); ++i)
      entrants.push_back(entrant_of(cublaslt_contender(problem, i, std::to_string(i))));
    const std::vector<Entrant*> best = best_of(lab, entrants, static_cast<int>(operands.size()));
    if (best.empty())
      return Error{ErrorCode::driver, fmt::format("no algorithm of cuBLASLt ran for {}: {}",
                                                  kProductNames[which], entrants[0].record.error)};
    const int algorithm = std::stoi(best[0]->record.name);
    if (Result<void> right = check_algorithm(lab, operands[0].problem(), problem->algorithm_text(algorithm));
        !right)
      return Error{right.error().code, fmt::format("{}: {}", kProductNames[which], right.error().message)};
    peer.products_.push_back({problem, algorithm});
    peer.detail_ += fmt::format("{}{} {} {:.2f} us", which == 0 ? "" : "; ", kProductNames[which],
                                problem->algorithm_text(algorithm), best[0]->record.us.median);
  }
  return peer;
}

Result<void> ChainPeer::enqueue(const Chain& off, Stream stream) const {
  size_t product = 0, launch = 0;
  for (const PlannedStep& planned : off.plan().steps) {
    if (!planned.launched) continue;
    const ChainLaunch& ours = off.impl().launches[launch++];
    Result<void> done{};
    if (const auto* step = std::get_if<ProductStep>(&planned.step.work)) {
      const Product& theirs = products_[product % kLayerProducts];
      const int layer = static_cast<int>(product / kLayerProducts) % layers_;
      done = theirs.problem->launch(theirs.algorithm, layer, step->args, stream);
      ++product;
    } else {
      done = ours.launch(workspace_.view(), stream);
    }
    if (!done) return done;
  }
  return {};
}

}  // namespace sluice::bench
