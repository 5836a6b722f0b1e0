// SPDX-License-Identifier: Apache-2.0
// The properties of a chain's step that decide how it runs best between its neighbours: a product's recipe
// (recipe.h), or the memory traffic of a norm or quantiser. It is the key by which tuned chains are looked
// up.
#pragma once

#include <compare>
#include <variant>

#include <sluice/plan/records/recipe.h>
#include <sluice/spec/norm.h>
#include <sluice/spec/quantize.h>

namespace sluice {

struct NormRecipe {
  i64 rows = 0, columns = 0;
  DType input = DType::bf16;
  NormStore store = NormStore::plain;  // a residual is not part of the recipe, since it changes no choice

  constexpr auto operator<=>(const NormRecipe&) const = default;
};

struct QuantizerRecipe {
  i64 rows = 0, columns = 0;
  DType input = DType::bf16;
  DType output = DType::e4m3;  // or the input's type; then there are no scales
  Granularity granularity = Granularity::tensor;
  Gate gate = Gate::none;

  constexpr auto operator<=>(const QuantizerRecipe&) const = default;
};

/// A foreign step, whose work is unknown: all foreign steps have the same recipe.
struct ForeignRecipe {
  bool overlapped = false, waits = false;

  constexpr auto operator<=>(const ForeignRecipe&) const = default;
};

using StepRecipe = std::variant<Recipe, NormRecipe, QuantizerRecipe, ForeignRecipe>;

}  // namespace sluice
