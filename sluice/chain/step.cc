// SPDX-License-Identifier: Apache-2.0
#include <sluice/chain/step.h>

#include <algorithm>

#include <sluice/chain/steps/kinds.h>
#include <sluice/plan/records/record_book.h>

namespace sluice {
namespace {

/// Returns the tuned chain's choice for step `here` between `before` and `behind` (null: any); null if no
/// step matches. The tuned chain counts as a cycle: its last step precedes its first.
const TunedStep* at_place(const TunedChain& chain, const StepRecipe* before, const StepRecipe& here,
                          const StepRecipe* behind) {
  const std::size_t count = chain.steps.size();
  for (std::size_t i = 0; i < count; ++i) {
    const StepRecipe& left = chain.steps[(i + count - 1) % count].recipe;
    const StepRecipe& right = chain.steps[(i + 1) % count].recipe;
    if (chain.steps[i].recipe == here && (before == nullptr || *before == left) &&
        (behind == nullptr || *behind == right))
      return &chain.steps[i].choice;
  }
  return nullptr;
}

const StepRecipe& recipe_in(const StepRecipe& recipe) {
  return recipe;
}
const StepRecipe& recipe_in(const TunedChain::Step& step) {
  return step.recipe;
}
/// Returns the first foreign step's recipe, which holds what it promises; none: no step is foreign.
template <class Steps>
std::optional<ForeignRecipe> first_foreign(const Steps& steps) {
  for (const auto& step : steps)
    if (const auto* foreign = std::get_if<ForeignRecipe>(&recipe_in(step))) return *foreign;
  return std::nullopt;
}

StepRange first_of(const std::vector<StepRange>& ranges) {
  return ranges.empty() ? StepRange{} : ranges.front();
}

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
  return first_of(step.ranges([](Role role) { return role == Role::streamed || role == Role::chosen; }));
}
StepRange streamed_weights(const Step& step) {
  return first_of(step.ranges([](Role role) { return role == Role::streamed; }));
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
  const StepRange weights = streamed_weights(*this);
  bytes = std::min(bytes, weights.bytes);
  if (bytes <= 0) return {};
  if (bytes == weights.bytes || bytes < kBlobSlice) return {weights.data, bytes};
  return spread_rows(weights.data, kBlobSlice, kBlobSlice, weights.bytes / kBlobSlice, bytes / kBlobSlice);
}

std::vector<std::optional<TunedStep>> RecordBook::find(std::span<const ChainStep> steps,
                                                       const DeviceInfo& device) const {
  std::vector<std::optional<TunedStep>> found(steps.size());
  if (impl().chains.empty()) return found;
  std::vector<std::size_t> launched;
  std::vector<StepRecipe> recipes;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!step_of(steps[i])->is_launched()) continue;
    launched.push_back(i);
    recipes.push_back(recipe_of(steps[i]));
  }
  if (recipes.size() < 2) return found;
  // Choices mixed from records of chains with other foreign steps, or with none, have cost 6 %
  // (docs/findings/whole-models.md). So a record serves chains whose foreign steps promise what its own do.
  const auto foreign = first_foreign(recipes);
  // Models share steps. The tuned chain that matches most steps is used first, and others fill the gaps.
  struct Match {
    std::vector<const TunedStep*> choices;
    std::ptrdiff_t count = 0;
  };
  std::vector<Match> matches;
  for (const TunedChain& chain : impl().chains) {
    if (chain.gpu != device.name || chain.sm_count != device.sm_count) continue;
    if (first_foreign(chain.steps) != foreign) continue;
    Match match;
    for (std::size_t i = 0; i < recipes.size(); ++i)
      match.choices.push_back(at_place(chain, i > 0 ? &recipes[i - 1] : nullptr, recipes[i],
                                       i + 1 < recipes.size() ? &recipes[i + 1] : nullptr));
    match.count = std::count_if(match.choices.begin(), match.choices.end(),
                                [](const TunedStep* choice) { return choice != nullptr; });
    matches.push_back(std::move(match));
  }
  std::stable_sort(matches.begin(), matches.end(),
                   [](const Match& x, const Match& y) { return x.count > y.count; });
  for (const Match& match : matches)
    for (std::size_t i = 0; i < recipes.size(); ++i)
      if (match.choices[i] != nullptr && !found[launched[i]]) found[launched[i]] = *match.choices[i];
  return found;
}

}  // namespace sluice
