// SPDX-License-Identifier: Apache-2.0
// Recipes of packed products. After a new member of PackedProblem this file does not compile until somebody
// decides whether the member belongs to the recipe.
#include <sluice/host/ops/hash.h>
#include <sluice/host/planner/packed/packed_problem_checks.h>
#include <sluice/records/recipe.h>

namespace sluice {

PackedRecipe recipe_of(const PackedProblem& problem) {
  PackedProblem p = problem;
  if (p.ld_x == 0) p.ld_x = p.k;
  if (p.ld_d == 0) p.ld_d = d_columns(p);
  // These do not affect the time, which is spent reading weights: bias_type (read once), ld_x (rows are read
  // in whole lines), scale_d (one value), gated, norm_x, residual and ld_c. The planner itself excludes
  // impossible combinations.
  const auto& [m, n, k, x, scale_x, d, weights, bias, bias_type, activation, gated, scale_d, norm_x, residual,
               ld_x, ld_d, ld_c] = p;
  const auto& [type, group, scale, zero, order] = weights;
  return {.m = m,
          .n = n,
          .k = k,
          .x = x,
          .d = d,
          .scale_x = scale_x == ScaleMode::vector ? ScaleMode::vector : ScaleMode::none,
          .weights = type,
          .group = group,
          .weight_scale = scale,
          .zero = zero,
          .order = order,
          .store = packed::rows_allow_boxes(p) ? StorePath::tma : StorePath::direct,
          .bias = bias,
          .activation = cost_of(activation)};
}

PackedProblem example_of(const PackedRecipe& r) {
  PackedProblem p{.m = r.m,
                  .n = r.n,
                  .k = r.k,
                  .x = r.x,
                  .scale_x = r.scale_x,
                  .d = r.d,
                  .weights = {.type = r.weights,
                              .group = r.group,
                              .scale = r.weight_scale,
                              .zero = r.zero,
                              .order = r.order},
                  .bias = r.bias,
                  .activation = activation_of(r.activation),
                  .ld_d = r.n};
  // TMA cannot store rows with an odd pitch.
  if (r.store == StorePath::direct && packed::rows_allow_boxes(p)) p.ld_d = r.n + 1;
  return p;
}

std::size_t hash_of(const PackedRecipe& r) {
  return hash_of({r.m, r.n, r.k, static_cast<i64>(r.x), static_cast<i64>(r.scale_x), static_cast<i64>(r.d),
                  static_cast<i64>(r.weights), static_cast<i64>(r.group), static_cast<i64>(r.weight_scale),
                  static_cast<i64>(r.zero), static_cast<i64>(r.bias), static_cast<i64>(r.activation)});
}

}  // namespace sluice
