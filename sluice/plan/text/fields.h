// SPDX-License-Identifier: Apache-2.0
// One table of fields for each problem and configuration: name, member, range and help. Printers, overrides,
// records, plan files, flags, the C interface and Python all read it. A member without a row does not compile
// (see the static_asserts at the end).
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include <sluice/choices.h>
#include <sluice/names.h>
#include <sluice/plan.h>
#include <sluice/spec/strip.h>
#include <sluice/spec/wide.h>

namespace sluice {

/// When a text contains a field. unless_default omits a default value, so that the text of units and records
/// older than the field does not change.
enum class Shown { always, unless_default };

/// A row of a table.
template <class Owner, class Member>
struct Field {
  using OwnerType = Owner;

  const char* name;
  Member Owner::*member;
  Shown shown = Shown::always;
  FieldRange range{};
  const char* help = "";
};

template <class Owner, class Member>
constexpr Field<Owner, Member> field(const char* name, Member Owner::*member) {
  return {name, member};
}
/// Returns the row of a field that was added when units and records already existed.
template <class Owner, class Member>
constexpr Field<Owner, Member> younger(const char* name, Member Owner::*member) {
  return {name, member, Shown::unless_default};
}
template <class Owner, class Member>
constexpr Field<Owner, Member> choice(const char* name, Member Owner::*member, const char* help,
                                      FieldRange range = {}) {
  return {name, member, Shown::unless_default, range, help};
}
template <class T>
struct FieldsOf;
template <class T>
concept HasFields = requires {
  FieldsOf<std::remove_const_t<T>>::kTable;
};

/// Calls visit(row, value.*row.member) for each row of the table, in its order.
template <HasFields T, class Visit>
constexpr void for_each_field(T& value, const Visit& visit) {
  std::apply([&](const auto&... rows) { (visit(rows, value.*rows.member), ...); },
             FieldsOf<std::remove_const_t<T>>::kTable);
}

template <>
struct FieldsOf<TileShape> {
  static constexpr auto kTable =
      std::tuple{field("m", &TileShape::m), field("n", &TileShape::n), field("k", &TileShape::k)};
};

template <>
struct FieldsOf<ClusterShape> {
  static constexpr auto kTable =
      std::tuple{field("m", &ClusterShape::m), field("n", &ClusterShape::n), field("k", &ClusterShape::k)};
};

template <>
struct FieldsOf<Matrix> {
  static constexpr auto kTable = std::tuple{field("type", &Matrix::type),
                                            field("major", &Matrix::major),
                                            field("ld", &Matrix::ld),
                                            field("batch_stride", &Matrix::batch_stride),
                                            younger("unaligned", &Matrix::unaligned),
                                            younger("packed", &Matrix::packed)};
};

template <>
struct FieldsOf<Epilogue> {
  static constexpr auto kTable = std::tuple{field("scale_a", &Epilogue::scale_a),
                                            field("scale_b", &Epilogue::scale_b),
                                            field("bias", &Epilogue::bias),
                                            field("bias_type", &Epilogue::bias_type),
                                            field("activation", &Epilogue::activation),
                                            field("residual", &Epilogue::residual),
                                            field("c_type", &Epilogue::c_type),
                                            field("update", &Epilogue::update),
                                            younger("gated", &Epilogue::gated),
                                            younger("scale_d", &Epilogue::scale_d),
                                            younger("residual_last", &Epilogue::residual_last),
                                            younger("row_factors", &Epilogue::row_factors)};
};

template <>
struct FieldsOf<Axes> {
  static constexpr auto kTable = std::tuple{field("w", &Axes::w), field("h", &Axes::h), field("d", &Axes::d)};
};

template <>
struct FieldsOf<Conv> {
  static constexpr auto kTable = std::tuple{field("op", &Conv::op),
                                            field("spatial", &Conv::spatial),
                                            field("images", &Conv::images),
                                            field("channels", &Conv::channels),
                                            field("filters", &Conv::filters),
                                            field("size", &Conv::size),
                                            field("filter", &Conv::filter),
                                            younger("stride", &Conv::stride),
                                            younger("dilation", &Conv::dilation),
                                            younger("padding", &Conv::padding),
                                            younger("padding_after", &Conv::padding_after),
                                            younger("x_pitch", &Conv::x_pitch),
                                            younger("y_pitch", &Conv::y_pitch)};
};

template <>
struct FieldsOf<ConvKind> {
  static constexpr auto kTable = std::tuple{field("op", &ConvKind::op), field("spatial", &ConvKind::spatial),
                                            younger("phased", &ConvKind::phased)};
};

template <>
struct FieldsOf<Groups> {
  static constexpr auto kTable = std::tuple{field("kind", &Groups::kind), younger("pitch", &Groups::pitch)};
};

template <>
struct FieldsOf<GroupConfig> {
  static constexpr auto kTable =
      std::tuple{field("kind", &GroupConfig::kind), field("most", &GroupConfig::most)};
};

template <>
struct FieldsOf<Problem> {
  static constexpr auto kTable = std::tuple{field("m", &Problem::m),
                                            field("n", &Problem::n),
                                            field("k", &Problem::k),
                                            field("batch", &Problem::batch),
                                            field("a", &Problem::a),
                                            field("b", &Problem::b),
                                            field("c", &Problem::c),
                                            field("d", &Problem::d),
                                            field("epilogue", &Problem::epilogue),
                                            field("accumulate", &Problem::accumulate),
                                            field("deterministic", &Problem::deterministic),
                                            younger("conv", &Problem::conv),
                                            younger("norm_a", &Problem::norm_a),
                                            younger("groups", &Problem::groups),
                                            younger("scale_a_ld", &Problem::scale_a_ld)};
};

template <>
struct FieldsOf<Overlap> {
  static constexpr auto kTable =
      std::tuple{field("wait", &Overlap::wait), field("trigger", &Overlap::trigger),
                 younger("spacing", &Overlap::spacing)};
};

template <>
struct FieldsOf<KernelConfig> {
  static constexpr auto kTable = std::tuple{field("schedule", &KernelConfig::schedule),
                                            field("tile", &KernelConfig::tile),
                                            field("stages", &KernelConfig::stages),
                                            field("cluster", &KernelConfig::cluster),
                                            field("a", &KernelConfig::a),
                                            field("b", &KernelConfig::b),
                                            field("d", &KernelConfig::d),
                                            field("a_major", &KernelConfig::a_major),
                                            field("b_major", &KernelConfig::b_major),
                                            younger("d_major", &KernelConfig::d_major),
                                            field("promotes", &KernelConfig::promotes),
                                            field("store", &KernelConfig::store),
                                            field("combine", &KernelConfig::combine),
                                            field("epilogue", &KernelConfig::epilogue),
                                            younger("warps", &KernelConfig::warps),
                                            younger("overlap", &KernelConfig::overlap),
                                            younger("conv", &KernelConfig::conv),
                                            younger("load_a", &KernelConfig::load_a),
                                            younger("load_b", &KernelConfig::load_b),
                                            younger("groups", &KernelConfig::groups),
                                            younger("scale_a_columns", &KernelConfig::scale_a_columns),
                                            younger("packed", &KernelConfig::packed),
                                            younger("norm_a", &KernelConfig::norm_a),
                                            younger("k_groups", &KernelConfig::k_groups),
                                            younger("ctas", &KernelConfig::ctas),
                                            younger("held_rows", &KernelConfig::held_rows),
                                            younger("w_stages", &KernelConfig::w_stages)};
};

template <>
struct FieldsOf<WorkSplit> {
  static constexpr auto kTable =
      std::tuple{field("clusters", &WorkSplit::clusters), field("raster", &WorkSplit::raster),
                 field("group", &WorkSplit::group), field("slices", &WorkSplit::slices),
                 field("numbering", &WorkSplit::numbering)};
};

template <>
struct FieldsOf<PlanOverrides> {
  using O = PlanOverrides;
  static constexpr auto kTable = std::tuple{
      choice("schedule", &O::schedule,
             "ping_pong, cooperative; plain or plain_wgmma (few rows of A); narrow, wide or strip (packed "
             "weights)"),
      choice("tile_m", &O::tile_m, "Rows of a CTA's tile", {8, 256}),
      choice("tile_n", &O::tile_n, "Columns of a CTA's tile", {8, 256}),
      choice("stages", &O::stages, "Slots of the shared-memory ring", {2, 32}),
      choice("warps", &O::warps, "Warps of a CTA, of plain schedules and narrow", {1, 16}),
      choice("w_stages", &O::w_stages, "wide: slots of the weights' ring, 128 k each", {1, 16}),
      choice("k_groups", &O::k_groups, "strip: warpgroups that share k", {1, 4}),
      choice("ctas", &O::ctas, "narrow: CTAs that share an SM", {1, 64}),
      choice("cluster", &O::cluster, "CTAs of a cluster along m, n and k", {1, 8}),
      choice("store", &O::store, "tma or direct"),
      choice("swapped", &O::swapped,
             "true: multiply B by A; tile, cluster and raster are meant for that product. false: never"),
      choice("raster", &O::raster, "along_m or along_n"),
      choice("raster_group", &O::raster_group, "Cluster tiles in a band", {1, kAnyInt}),
      choice("clusters", &O::clusters, "Clusters to launch", {1, 1 << 16}),
      choice("splits", &O::splits, "Slices of each tile along k; 1: whole tiles", {1, kAnyInt}),
      choice(
          "combine", &O::combine,
          "Who adds up the slices of a tile: last_arriver, separate (a kernel of its own), or add (into D)"),
      choice("workspace_limit", &O::workspace_limit, "Bytes of workspace that a plan may need"),
      choice("ignore_records", &O::ignore_records, "Plan as if the problem had never been tuned"),
      choice("overlap", &O::overlap, "Overlap with the launches before and behind")};
};

template <>
struct FieldsOf<WeightFormat> {
  static constexpr auto kTable =
      std::tuple{field("type", &WeightFormat::type), field("group", &WeightFormat::group),
                 field("scale", &WeightFormat::scale), field("zero", &WeightFormat::zero),
                 field("order", &WeightFormat::order)};
};

template <>
struct FieldsOf<NarrowConfig> {
  using C = NarrowConfig;
  static constexpr auto kTable = std::tuple{field("weights", &C::weights),
                                            field("x", &C::x),
                                            field("d", &C::d),
                                            field("bias", &C::bias),
                                            field("bias_type", &C::bias_type),
                                            field("activation", &C::activation),
                                            younger("gated", &C::gated),
                                            younger("norm_a", &C::norm_a),
                                            younger("residual", &C::residual),
                                            younger("held_tokens", &C::held_tokens),
                                            field("token_blocks", &C::token_blocks),
                                            field("row_blocks", &C::row_blocks),
                                            field("warps", &C::warps),
                                            field("stages", &C::stages),
                                            field("parts", &C::parts),
                                            field("ctas", &C::ctas),
                                            younger("overlap", &C::overlap),
                                            younger("groups", &C::groups)};
};

template <>
struct FieldsOf<WideConfig> {
  using C = WideConfig;
  static constexpr auto kTable = std::tuple{field("weights", &C::weights),
                                            field("x", &C::x),
                                            field("d", &C::d),
                                            field("bias", &C::bias),
                                            field("bias_type", &C::bias_type),
                                            field("activation", &C::activation),
                                            field("tokens", &C::tokens),
                                            field("cluster_n", &C::cluster_n),
                                            field("x_stages", &C::x_stages),
                                            field("w_stages", &C::w_stages),
                                            younger("overlap", &C::overlap)};
};

template <>
struct FieldsOf<StripConfig> {
  using C = StripConfig;
  static constexpr auto kTable = std::tuple{
      field("weights", &C::weights),       field("x", &C::x),           field("d", &C::d),
      field("scale_x", &C::scale_x),       field("bias", &C::bias),     field("bias_type", &C::bias_type),
      field("activation", &C::activation), younger("gated", &C::gated), younger("scale_d", &C::scale_d),
      field("tokens", &C::tokens),         field("strips", &C::strips), field("k_groups", &C::k_groups),
      field("parts", &C::parts),           field("stages", &C::stages), younger("overlap", &C::overlap)};
};

/// Converts to any member type. Used to count an aggregate's members.
struct AnyMember {
  template <class T>
  constexpr operator T() const;
};
struct AnyOptional {
  template <class T>
  constexpr operator std::optional<T>() const;
};
template <class T, class... Members>
constexpr std::size_t member_count() {
  if constexpr (requires { T{Members{}..., AnyOptional{}}; })
    return member_count<T, Members..., AnyOptional>();
  else if constexpr (requires { T{Members{}..., AnyMember{}}; })
    return member_count<T, Members..., AnyMember>();
  else
    return sizeof...(Members);
}
template <class... T>
constexpr bool all_have_rows = ((std::tuple_size_v<decltype(FieldsOf<T>::kTable)> == member_count<T>()) &&
                                ...);
static_assert(all_have_rows<TileShape, ClusterShape, Matrix, Epilogue, Axes, Conv, ConvKind, Groups,
                            GroupConfig, Problem, Overlap, KernelConfig, WorkSplit, PlanOverrides,
                            WeightFormat, NarrowConfig, WideConfig, StripConfig>,
              "a member has no row in its table above");

}  // namespace sluice
