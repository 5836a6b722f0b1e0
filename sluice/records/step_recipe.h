// SPDX-License-Identifier: Apache-2.0
// What of a chain's step decides how it is best run between its neighbours: of products their recipes
// (recipe.h), of companions what they move. Steps are looked up in tuned chains by it.
#pragma once

#include <compare>
#include <variant>

#include <sluice/chain.h>
#include <sluice/records/recipe.h>
#include <sluice/spec/norm.h>

namespace sluice {

/// What stands in front of it and behind decides how a packed product is best run in a chain, and so does
/// what of that it does itself; alone it costs nothing.
struct PackedStepRecipe {
  PackedRecipe product;
  bool gated = false, norm_x = false, residual = false;

  constexpr auto operator<=>(const PackedStepRecipe&) const = default;
};

struct NormRecipe {
  i64 rows = 0, columns = 0;
  DType input = DType::bf16;
  NormStore store = NormStore::plain;  // a residual costs nothing that a choice depends on

  constexpr auto operator<=>(const NormRecipe&) const = default;
};

struct QuantizerRecipe {
  i64 rows = 0, columns = 0;
  DType input = DType::bf16;
  DType output = DType::e4m3;  // or as the input, without scales
  Granularity granularity = Granularity::tensor;
  Gate gate = Gate::none;

  constexpr auto operator<=>(const QuantizerRecipe&) const = default;
};

/// One is like any other: what it does, nobody knows.
struct ForeignRecipe {
  bool overlapped = false;

  constexpr auto operator<=>(const ForeignRecipe&) const = default;
};

using StepRecipe = std::variant<Recipe, PackedStepRecipe, NormRecipe, QuantizerRecipe, ForeignRecipe>;

/// `step` is one that plan_chain accepts.
StepRecipe recipe_of(const ChainStep& step);

}  // namespace sluice
