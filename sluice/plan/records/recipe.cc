// SPDX-License-Identifier: Apache-2.0
// Every switch lists all enumerators, so that a new mode does not compile until somebody decides how it
// affects the recipe.
#include <sluice/plan/records/recipe.h>

#include <algorithm>

#include <sluice/kernels/registry.h>
#include <sluice/plan/dense/problem_checks.h>
#include <sluice/plan/hash.h>
#include <sluice/plan/packed/packed_problem_checks.h>
#include <sluice/spec/conv_problem.h>
#include <sluice/spec/packed.h>

namespace sluice {
namespace {

/// Returns true if the epilogue reads one scale per row or column.
bool is_vector(ScaleMode mode) {
  switch (mode) {
    case ScaleMode::vector: return true;
    case ScaleMode::none:
    case ScaleMode::tensor:
    case ScaleMode::block:
    case ScaleMode::vector128: return false;  // described by Sums
  }
  return false;
}

Adding adding_of(const Problem& p) {
  if (!adds(p.epilogue)) return Adding::none;
  return adds_in_any_order(p) ? Adding::any_order : Adding::ordered;
}

Sums sums_of(const Problem& p) {
  if (scales_each_column(p.epilogue)) return Sums::vector128;
  if (is_block_scaled(p.epilogue)) return Sums::block;
  return is_promoted(p) ? Sums::promoted : Sums::fast;
}

using AxisNumbers = std::array<int, kMostSpatial>;

/// Returns the numbers per axis, 0 along axes that the convolution lacks; records omit those.
AxisNumbers numbers_of(const Axes& axes, int spatial) {
  return {axes.w, spatial > 1 ? axes.h : 0, spatial > 2 ? axes.d : 0};
}
Axes axes_of(const AxisNumbers& numbers, int spatial, int usual) {
  return {numbers[0], spatial > 1 ? numbers[1] : usual, spatial > 2 ? numbers[2] : usual};
}
ConvRecipe recipe_of(const Conv& v) {
  if (!is_conv(v)) return {};
  return {.op = v.op,
          .spatial = v.spatial,
          .images = v.images,
          .channels = v.channels,
          .filters = v.filters,
          .size = numbers_of(v.size, v.spatial),
          .filter = numbers_of(v.filter, v.spatial),
          .stride = numbers_of(v.stride, v.spatial),
          .dilation = numbers_of(v.dilation, v.spatial),
          .padding = numbers_of(v.padding, v.spatial),
          .padding_after = numbers_of(v.padding_after, v.spatial)};
}
Conv conv_of(const ConvRecipe& r) {
  return {.op = r.op,
          .spatial = r.spatial,
          .images = r.images,
          .channels = r.channels,
          .filters = r.filters,
          .size = axes_of(r.size, r.spatial, 1),
          .filter = axes_of(r.filter, r.spatial, 1),
          .stride = axes_of(r.stride, r.spatial, 1),
          .dilation = axes_of(r.dilation, r.spatial, 1),
          .padding = axes_of(r.padding, r.spatial, 0),
          .padding_after = axes_of(r.padding_after, r.spatial, 0)};
}

/// Returns the recipe of a product with packed weights. These do not affect its time, which is spent reading
/// weights: the bias's type, pitches, scale_d, gated, norm_a and the residual. The planner itself excludes
/// impossible combinations.
Recipe packed_recipe(const Problem& p) {
  const WeightFormat& w = p.b.packed;
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .a = p.a.type,
          .b = p.a.type,
          .d = p.d.type,
          .store = packed::rows_allow_boxes(p) ? StorePath::tma : StorePath::direct,
          .vectors = is_vector(p.epilogue.scale_a),
          .bias = p.epilogue.bias,
          .activation = cost_of(p.epilogue.activation),
          .weights = w.type,
          .group = w.group,
          .weight_scale = w.scale,
          .zero = w.zero,
          .order = w.order};
}

}  // namespace

ActivationCost cost_of(Activation activation) {
  if (!is_smooth(activation)) return ActivationCost::cheap;
  return divides(activation) ? ActivationCost::silu : ActivationCost::gelu;
}

Activation activation_of(ActivationCost cost) {
  switch (cost) {
    case ActivationCost::cheap: return Activation::none;
    case ActivationCost::gelu: return Activation::gelu;
    case ActivationCost::silu: return Activation::silu;
  }
  return Activation::none;
}

Recipe recipe_of(const Problem& problem) {
  const Problem p = with_strides(problem);
  if (is_packed(p)) return packed_recipe(p);
  const Epilogue& e = p.epilogue;
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .batch = p.batch,
          .a = p.a.type,
          .b = p.b.type,
          .d = p.d.type,
          .a_major = p.a.major,
          .b_major = p.b.major,
          .sums = sums_of(p),
          .store = why_not_tma_store(p) == nullptr ? StorePath::tma : StorePath::direct,
          .vectors = is_vector(e.scale_a) || is_vector(e.scale_b),
          .bias = e.bias,
          .activation = cost_of(e.activation),
          .residual_bytes = e.residual ? bytes_of(e.c_type) : 0,
          .adding = adding_of(p),
          .gated = e.gated,
          .strided_a = load_of(p.a, p.m, p) == Load::strided,
          .strided_b = load_of(p.b, p.n, p) == Load::strided,
          .conv = recipe_of(p.conv),
          .groups = p.groups.kind,
          .scale_columns = scales_by_columns(p)};
}

Recipe step_recipe_of(const Problem& problem) {
  Recipe recipe = recipe_of(problem);
  if (!is_packed(problem)) return recipe;
  recipe.gated = problem.epilogue.gated;
  recipe.norm_a = problem.norm_a;
  recipe.residual_bytes = problem.epilogue.residual ? bytes_of(problem.d.type) : 0;
  return recipe;
}

Problem example_of(const Recipe& r) {
  Problem p{.m = r.m, .n = r.n, .k = r.k, .batch = r.batch};
  p.a = {.type = r.a, .major = r.a_major};
  p.b = {.type = r.b, .major = r.b_major};
  p.a.unaligned = r.strided_a;
  p.b.unaligned = r.strided_b;
  p.d.type = r.d;
  p.accumulate = r.sums == Sums::promoted ? Accumulate::promoted : Accumulate::fast;
  if (r.sums == Sums::block) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::block;
  if (r.sums == Sums::vector128)
    p.epilogue.scale_a = ScaleMode::block, p.epilogue.scale_b = ScaleMode::vector128;
  if (r.scale_columns) p.scale_a_ld = std::max<i64>(r.m, 1);
  if (r.vectors) p.epilogue.scale_a = ScaleMode::vector;
  p.epilogue.bias = r.bias;
  p.epilogue.update = r.adding == Adding::none ? Update::set : Update::add;
  p.deterministic = r.adding != Adding::any_order;
  p.epilogue.activation = activation_of(r.activation);
  p.epilogue.gated = r.gated;
  p.epilogue.residual = r.residual_bytes != 0;
  p.epilogue.c_type = r.residual_bytes == bytes_of(DType::fp32) ? DType::fp32 : DType::bf16;
  if (r.conv.op != ConvOp::none) return product_of_conv(conv_of(r.conv), p);
  p.groups.kind = r.groups;
  // A row pitch that is not a multiple of 16 bytes excludes TMA.
  if (r.weights != WeightType::none) {
    p.b = {
        .type = r.a,
        .packed = {
            .type = r.weights, .group = r.group, .scale = r.weight_scale, .zero = r.zero, .order = r.order}};
    p.norm_a = r.norm_a;
    p.epilogue.c_type = Epilogue{}.c_type;
    if (p.epilogue.residual) add_residual(p);
    if (r.store == StorePath::direct && packed::rows_allow_boxes(with_strides(p))) p.d.ld = r.n + 1;
    return p;
  }
  if (r.store == StorePath::direct && why_not_tma_store(with_strides(p)) == nullptr) p.d.ld = r.n + 1;
  return p;
}

std::size_t hash_of(const Recipe& r) {
  return hash_of({r.m,
                  r.n,
                  r.k,
                  r.batch,
                  static_cast<i64>(r.a),
                  static_cast<i64>(r.d),
                  static_cast<i64>(r.sums),
                  static_cast<i64>(r.activation),
                  static_cast<i64>(r.vectors),
                  static_cast<i64>(r.bias),
                  i64{r.residual_bytes},
                  static_cast<i64>(r.adding),
                  static_cast<i64>(r.gated),
                  i64{r.strided_a},
                  i64{r.strided_b},
                  static_cast<i64>(r.groups),
                  i64{r.scale_columns},
                  static_cast<i64>(r.conv.op),
                  r.conv.channels,
                  r.conv.size[0],
                  static_cast<i64>(r.weights),
                  i64{r.group},
                  static_cast<i64>(r.weight_scale),
                  static_cast<i64>(r.zero)});
}

}  // namespace sluice
