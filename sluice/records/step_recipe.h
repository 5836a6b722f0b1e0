// SPDX-License-Identifier: Apache-2.0
// Properties of a chain's step that decide how to run it between its neighbours: a product's recipe
// (recipe.h), a companion's traffic. Tuned chains are searched by it.
#pragma once

#include <compare>
#include <variant>

#include <sluice/chain.h>
#include <sluice/records/recipe.h>
#include <sluice/spec/norm.h>

namespace sluice {

/// Neighbours and fused work decide how a packed product runs best in a chain, although the fused work costs
/// nothing alone.
struct PackedStepRecipe {
  PackedRecipe product;
  bool gated = false, norm_x = false, residual = false;

  constexpr auto operator<=>(const PackedStepRecipe&) const = default;
};

struct NormRecipe {
  i64 rows = 0, columns = 0;
  DType input = DType::bf16;
  NormStore store = NormStore::plain;  // a residual changes no choice

  constexpr auto operator<=>(const NormRecipe&) const = default;
};

struct QuantizerRecipe {
  i64 rows = 0, columns = 0;
  DType input = DType::bf16;
  DType output = DType::e4m3;  // or the input's type, without scales
  Granularity granularity = Granularity::tensor;
  Gate gate = Gate::none;

  constexpr auto operator<=>(const QuantizerRecipe&) const = default;
};

/// All foreign steps are alike: their work is unknown.
struct ForeignRecipe {
  bool overlapped = false;

  constexpr auto operator<=>(const ForeignRecipe&) const = default;
};

using StepRecipe = std::variant<Recipe, PackedStepRecipe, NormRecipe, QuantizerRecipe, ForeignRecipe>;

/// `step` must be one that plan_chain accepts.
StepRecipe recipe_of(const ChainStep& step);

}  // namespace sluice
