// SPDX-License-Identifier: Apache-2.0
// Looks up the steps of a chain in a record book's tuned chains.
#include <algorithm>

#include <sluice/chain/step.h>
#include <sluice/records/record_book.h>

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

}  // namespace

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
  // Models share steps. The tuned chain that matches most steps is used first, and others fill the gaps.
  struct Match {
    std::vector<const TunedStep*> choices;
    std::ptrdiff_t count = 0;
  };
  std::vector<Match> matches;
  for (const TunedChain& chain : impl().chains) {
    if (chain.gpu != device.name || chain.sm_count != device.sm_count) continue;
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
