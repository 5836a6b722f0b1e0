// SPDX-License-Identifier: Apache-2.0
#include <sluice/chain/step.h>

#include <algorithm>

#include <sluice/chain/steps/kinds.h>

namespace sluice {
namespace {

constexpr i64 kBlobSlice = 2048;  // bytes of packed weights; a CTA reads many slices in a row

}  // namespace

std::shared_ptr<const Step> step_of(const ChainStep& step) {
  return std::visit([](const auto& work) { return make_step(work); }, step.work);
}

StepRecipe recipe_of(const ChainStep& step) {
  return step_of(step)->recipe();
}

std::vector<TunedChain::Step> tuned_steps(std::span<const ChainStep> layer,
                                          std::span<const TunedStep> choices) {
  std::vector<TunedChain::Step> steps;
  for (std::size_t i = 0; i < layer.size(); ++i) steps.push_back({recipe_of(layer[i]), choices[i]});
  return steps;
}

StepRange main_weights(const Step& step) {
  const std::vector<StepRange> streamed = step.ranges([](Role role) { return role == Role::streamed; });
  return streamed.empty() ? StepRange{} : streamed.front();
}

std::vector<StepRange> ranges_of(const Operands& operands, const Pointers& pointers, bool (*wanted)(Role)) {
  std::vector<StepRange> found;
  for (int i = 0; i < operands.size(); ++i)
    if (follows(operands, pointers, i) && wanted(operands[i].role))
      found.push_back({operands[i].name, pointers.at[static_cast<size_t>(i)], span_bytes(operands[i].memory),
                       operands[i].type, operands[i].memory});
  return found;
}

i64 moved_bytes(const Operands& operands, const Pointers& pointers) {
  i64 bytes = 0;
  for (int i = 0; i < operands.size(); ++i)
    if (follows(operands, pointers, i)) bytes += data_bytes(operands[i].memory);
  return bytes;
}

/// The default, for weights such as packed ones, whose rows need no equal shares.
WarmRange Step::share_of_weights(i64 bytes, const SkippedK&) const {
  const StepRange weights = main_weights(*this);
  bytes = std::min(bytes, weights.bytes);
  if (bytes <= 0) return {};
  if (bytes == weights.bytes || bytes < kBlobSlice) return {weights.data, bytes};
  return spread_rows(weights.data, kBlobSlice, kBlobSlice, weights.bytes / kBlobSlice, bytes / kBlobSlice);
}

}  // namespace sluice
