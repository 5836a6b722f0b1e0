// SPDX-License-Identifier: Apache-2.0
#include <sluice/records/step_recipe.h>

#include <sluice/host/text/norm_units.h>

namespace sluice {
namespace {

struct ToRecipe {
  StepRecipe operator()(const ProductStep& s) const { return recipe_of(with_strides(s.problem)); }
  StepRecipe operator()(const PackedStep& s) const {
    const PackedProblem& p = s.problem;
    return PackedStepRecipe{
        .product = recipe_of(p), .gated = p.gated, .norm_x = p.norm_x, .residual = p.residual};
  }
  StepRecipe operator()(const NormStep& s) const {
    return NormRecipe{.rows = s.shape.rows,
                      .columns = s.shape.columns,
                      .input = s.options.input,
                      .store = norm_store_of(s.options)};
  }
  StepRecipe operator()(const QuantizerStep& s) const {
    return QuantizerRecipe{.rows = s.shape.rows,
                           .columns = s.shape.columns,
                           .input = s.input,
                           .output = s.granularity ? DType::e4m3 : s.input,
                           .granularity = s.granularity.value_or(Granularity::tensor),
                           .gate = s.gate};
  }
  StepRecipe operator()(const ForeignStep& s) const { return ForeignRecipe{.overlapped = s.overlapped}; }
};

}  // namespace

StepRecipe recipe_of(const ChainStep& step) {
  return std::visit(ToRecipe{}, step.work);
}

}  // namespace sluice
