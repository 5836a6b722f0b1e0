// SPDX-License-Identifier: Apache-2.0
// JSON fields of recipes and choices, visited with names and bounds by a Writer or a Reader (record_json.h).
// Tuning records and tuned chains share these lists.
#pragma once

#include <sluice/records/record_json.h>
#include <sluice/records/tuned_chain.h>

namespace sluice::record_json {

using packed::Is;

inline constexpr const char* kPackedField = "weights";  // dense records have no such field
inline constexpr Range kSize{1, kMaxInt};

/// Visits a convolution's sizes, axes innermost first. They are written only for convolutions.
template <class Visitor, class Values>
void conv_fields(Visitor& v, Values& conv) {
  v.choice_or("conv", ConvOp::none, conv.op);
  if (conv.op == ConvOp::none) return;
  v.number("spatial", conv.spatial, {1, kMostSpatial});
  v.number("images", conv.images, kSize);
  v.number("channels", conv.channels, kSize);
  v.number("filters", conv.filters, kSize);
  const auto axes = [&](const std::string& name, auto& values, Range range) {
    for (int axis = 0; axis < conv.spatial; ++axis)
      v.number((name + "_" + "whd"[axis]).c_str(), values[static_cast<std::size_t>(axis)], range);
  };
  axes("size", conv.size, kSize);
  axes("filter", conv.filter, kSize);
  axes("stride", conv.stride, kSize);
  axes("dilation", conv.dilation, kSize);
  axes("padding", conv.padding, {0, kMaxInt});
  axes("padding_after", conv.padding_after, {0, kMaxInt});
}

// One function per kind of recipe and choice. Values are const for a Writer.
template <class Visitor, Is<Recipe> Values>
void recipe_fields(Visitor& v, Values& recipe) {
  v.number("m", recipe.m, kSize);
  v.number("n", recipe.n, kSize);
  v.number("k", recipe.k, kSize);
  v.number("batch", recipe.batch, kSize);
  v.choice("a", recipe.a);
  v.choice("b", recipe.b);
  v.choice("d", recipe.d);
  v.choice("a_layout", recipe.a_major);
  v.choice("b_layout", recipe.b_major);
  v.choice("sums", recipe.sums);
  v.choice("store", recipe.store);
  v.flag("vectors", recipe.vectors);
  v.choice("activation", recipe.activation);
  v.number("residual_bytes", recipe.residual_bytes, {0, 4});
  v.choice_or("bias", Bias::none, recipe.bias);
  v.choice_or("adding", Adding::none, recipe.adding);
  v.flag_if("gated", recipe.gated);
  v.flag_if("strided_a", recipe.strided_a);
  v.flag_if("strided_b", recipe.strided_b);
  conv_fields(v, recipe.conv);
}

template <class Visitor, Is<PackedRecipe> Values>
void recipe_fields(Visitor& v, Values& recipe) {
  v.number("m", recipe.m, kSize);
  v.number("n", recipe.n, kSize);
  v.number("k", recipe.k, kSize);
  v.choice("x", recipe.x);
  v.choice_or("scale_x", ScaleMode::none, recipe.scale_x);
  v.choice("d", recipe.d);
  v.choice(kPackedField, recipe.weights);
  v.number("group", recipe.group, {0, kPackedTileK});
  v.choice("weight_scale", recipe.weight_scale);
  v.choice("zero", recipe.zero);
  v.choice_or("order", FragmentOrder::half, recipe.order);
  v.choice("store", recipe.store);
  v.choice("activation", recipe.activation);
  v.choice_or("bias", Bias::none, recipe.bias);
}

template <class Visitor, Is<PackedStepRecipe> Values>
void recipe_fields(Visitor& v, Values& recipe) {
  recipe_fields(v, recipe.product);
  v.flag_if("gated", recipe.gated);
  v.flag_if("norm_x", recipe.norm_x);
  v.flag_if("residual", recipe.residual);
}

template <class Visitor, Is<TunedChoice> Values>
void choice_fields(Visitor& v, Values& choice) {
  const Range tile{1, 1024}, cluster{1, 16};
  v.choice("schedule", choice.schedule);
  v.number("tile_m", choice.tile_m, tile);
  v.number("tile_n", choice.tile_n, tile);
  v.number("cluster_m", choice.cluster.m, cluster);
  v.number("cluster_n", choice.cluster.n, cluster);
  v.number("cluster_k", choice.cluster.k, cluster);
  v.flag_if("swapped", choice.swapped);
  v.choice("raster", choice.raster);
  v.number("raster_group", choice.raster_group, kSize);
  v.choice_or("numbering", Numbering::launch, choice.numbering);
  v.number("clusters", choice.clusters, {1, 65536});
  v.slices("streamed", choice.slices, choice.clusters);
  v.choice_or("combine", Combine::last_arriver, choice.combine);
  v.number_or("warps", 0, choice.warps, {0, 64});
  v.number_or("stages", 0, choice.stages, {0, 64});
}

/// Visits a packed kernel's choice. Names and order are those of the kernel's field table; the planner checks
/// ranges.
template <class Visitor, Is<packed::TunedChoice> Values>
void choice_fields(Visitor& v, Values& choice) {
  v.kernel("kernel", choice.config);
  const Range range{0, 1024};
  const auto number = [&](const auto& row, auto& value) {
    using Config = typename std::remove_cvref_t<decltype(row)>::OwnerType;
    if (row.shown == Shown::always)
      v.number(row.name, value, range);
    else
      v.number_or(row.name, Config{}.*row.member, value, range);
  };
  std::visit([&](auto& config) { packed::for_each_choice(config, number); }, choice.config);
  if (std::holds_alternative<WideConfig>(choice.config)) {
    v.removed("cluster_k", 1, true);
    v.removed("tail_parts", 1, false);
  }
}

template <class Visitor, Is<NormRecipe> Values>
void recipe_fields(Visitor& v, Values& recipe) {
  v.number("rows", recipe.rows, kSize);
  v.number("columns", recipe.columns, kSize);
  v.choice("input", recipe.input);
  v.choice("store", recipe.store);
}

template <class Visitor, Is<QuantizerRecipe> Values>
void recipe_fields(Visitor& v, Values& recipe) {
  v.number("rows", recipe.rows, kSize);
  v.number("columns", recipe.columns, kSize);
  v.choice("input", recipe.input);
  v.choice_or("output", DType::e4m3, recipe.output);
  v.choice("granularity", recipe.granularity);
  v.choice("gate", recipe.gate);
}

template <class Visitor, Is<ForeignRecipe> Values>
void recipe_fields(Visitor& v, Values& recipe) {
  v.flag("overlapped", recipe.overlapped);
}

/// Reads `chain` (tuned_chain.cc). Returns the first fault, or "" if there is none.
std::string read_tuned_chain(const Json& json, TunedChain& chain);

}  // namespace sluice::record_json
