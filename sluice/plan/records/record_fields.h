// SPDX-License-Identifier: Apache-2.0
// JSON fields of recipes and choices, visited with names and bounds by a Writer or a Reader (record_json.h).
// Tuning records and tuned chains share these lists.
#pragma once

#include <type_traits>

#include <sluice/plan/records/record_json.h>
#include <sluice/plan/records/tuned_chain.h>
#include <sluice/spec/packed_config.h>

namespace sluice::record_json {

/// True if `Value` is `Kind`, const or not.
template <class Value, class Kind>
concept Is = std::is_same_v<std::remove_const_t<Value>, Kind>;

inline constexpr const char* kPackedField = "weights";  // dense records have no such field
/// A Reader starts from these two, if the record has that field.
inline constexpr Recipe kPackedRecipe{.weights = WeightType::uint4};
inline constexpr TunedChoice kDecoder{.schedule = Schedule::narrow};
inline bool is_packed(const Recipe& recipe) {
  return recipe.weights != WeightType::none;
}

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

/// Visits the recipe of packed weights, in the names of records that are older than Problem::b.packed.
template <class Visitor, class Values>
void packed_fields(Visitor& v, Values& recipe) {
  v.number("m", recipe.m, kSize);
  v.number("n", recipe.n, kSize);
  v.number("k", recipe.k, kSize);
  v.choice("x", recipe.a);
  v.choice_if("scale_x", recipe.vectors, ScaleMode::vector, ScaleMode::none);
  v.choice("d", recipe.d);
  v.choice(kPackedField, recipe.weights, [](WeightType type) { return type != WeightType::none; });
  v.number("group", recipe.group, {0, kPackedTileK});
  v.choice("weight_scale", recipe.weight_scale);
  v.choice("zero", recipe.zero);
  v.choice_or("order", FragmentOrder::half, recipe.order);
  v.choice("store", recipe.store);
  v.choice("activation", recipe.activation);
  v.choice_or("bias", Bias::none, recipe.bias);
  v.same(recipe.b, recipe.a);
}
/// Visits what a step of a chain has in addition.
template <class Visitor, class Values>
void packed_step_fields(Visitor& v, Values& recipe) {
  v.flag_if("gated", recipe.gated);
  v.flag_if("norm_x", recipe.norm_a);
  v.number_if("residual", recipe.residual_bytes, bytes_of(recipe.d));
}

// One function per kind of recipe and choice. Values are const for a Writer.
template <class Visitor, Is<Recipe> Values>
void recipe_fields(Visitor& v, Values& recipe) {
  if (is_packed(recipe)) return packed_fields(v, recipe);
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
  v.choice_or("groups", GroupKind::none, recipe.groups);
  v.flag_if("scale_columns", recipe.scale_columns);
}

/// Visits the choice of a kernel for packed weights, in the words of that kernel. The planner checks ranges.
template <class Visitor, Is<TunedChoice> Values>
void decoder_fields(Visitor& v, Values& choice) {
  v.decoder("kernel", choice.schedule);
  const Range range{0, 1024};
  switch (choice.schedule) {
    case Schedule::narrow:
      v.number_of("token_blocks", kTokenBlock, choice.tile_m, range);
      v.number_of("row_blocks", kBlockRows, choice.tile_n, range);
      v.number("warps", choice.warps, range);
      v.number("stages", choice.stages, range);
      v.number("parts", choice.cluster.k, range);
      return v.number("ctas", choice.ctas, range);
    case Schedule::wide:
      v.number("tokens", choice.tile_m, range);
      v.number("cluster_n", choice.cluster.n, range);
      v.number("x_stages", choice.stages, range);
      v.number("w_stages", choice.w_stages, range);
      v.removed("cluster_k", 1, true);
      v.removed("tail_parts", 1, false);
      return v.same(choice.tile_n, kWideRows);
    default:
      v.number("tokens", choice.tile_m, range);
      v.number_of("strips", kStripRows, choice.tile_n, range);
      v.number("k_groups", choice.k_groups, range);
      v.number("parts", choice.cluster.k, range);
      return v.number("stages", choice.stages, range);
  }
}

template <class Visitor, Is<TunedChoice> Values>
void choice_fields(Visitor& v, Values& choice) {
  if (decodes(choice.schedule)) return decoder_fields(v, choice);
  const Range tile{1, 1024}, cluster{1, 16};
  v.choice("schedule", choice.schedule, [](Schedule schedule) { return !decodes(schedule); });
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
  v.flag_if("waits", recipe.waits);
}

/// Reads `chain` (tuned_chain.cc). Returns the first fault, or "" if there is none.
std::string read_tuned_chain(const Json& json, TunedChain& chain);

}  // namespace sluice::record_json
