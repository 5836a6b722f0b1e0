// SPDX-License-Identifier: Apache-2.0
// One table of fields for each problem and configuration: name, member, range and help. Printers, overrides,
// records, plan files, flags, the C interface and Python all read it. A member without a row does not compile
// (see the static_asserts at the end).
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include <sluice/host/text/enumerations.h>
#include <sluice/host/text/field_range.h>
#include <sluice/packed.h>

namespace sluice {

/// When a text contains a field. unless_default omits a default value, so that the text of units and records
/// older than the field does not change.
enum class Shown { always, unless_default };

/// A row of a table. `overrule`: the packed::Overrides member that sets this field of a packed kernel; null
/// for fields that the planner does not choose.
template <class Owner, class Member>
struct Field {
  using OwnerType = Owner;

  const char* name;
  Member Owner::*member;
  Shown shown = Shown::always;
  FieldRange range{};
  const char* help = "";
  std::optional<int> packed::Overrides::*overrule = nullptr;
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
/// Returns the row of a packed kernel's field that the planner chooses.
template <class Config>
constexpr Field<Config, int> choice(const char* name, int Config::*member,
                                    std::optional<int> packed::Overrides::*overrule, FieldRange range,
                                    const char* help) {
  return {name, member, Shown::always, range, help, overrule};
}
template <class Config>
constexpr Field<Config, int> younger(Field<Config, int> row) {
  row.shown = Shown::unless_default;
  return row;
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
  static constexpr auto kTable =
      std::tuple{field("type", &Matrix::type), field("major", &Matrix::major), field("ld", &Matrix::ld),
                 field("batch_stride", &Matrix::batch_stride), younger("unaligned", &Matrix::unaligned)};
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
                                            younger("scale_d", &Epilogue::scale_d)};
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
                                            younger("conv", &Problem::conv)};
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
                                            younger("load_b", &KernelConfig::load_b)};
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
      choice("schedule", &O::schedule, "ping_pong, cooperative; plain or plain_wgmma (few rows of A)"),
      choice("tile_m", &O::tile_m, "Rows of a CTA's tile", {8, 256}),
      choice("tile_n", &O::tile_n, "Columns of a CTA's tile", {8, 256}),
      choice("stages", &O::stages, "Slots of the shared-memory ring", {2, 16}),
      choice("warps", &O::warps, "Warps of a CTA, of plain schedules", {1, 16}),
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
struct FieldsOf<PackedProblem> {
  static constexpr auto kTable = std::tuple{field("m", &PackedProblem::m),
                                            field("n", &PackedProblem::n),
                                            field("k", &PackedProblem::k),
                                            field("x", &PackedProblem::x),
                                            field("scale_x", &PackedProblem::scale_x),
                                            field("d", &PackedProblem::d),
                                            field("weights", &PackedProblem::weights),
                                            field("bias", &PackedProblem::bias),
                                            field("bias_type", &PackedProblem::bias_type),
                                            field("activation", &PackedProblem::activation),
                                            younger("gated", &PackedProblem::gated),
                                            younger("scale_d", &PackedProblem::scale_d),
                                            younger("norm_x", &PackedProblem::norm_x),
                                            younger("residual", &PackedProblem::residual),
                                            field("ld_x", &PackedProblem::ld_x),
                                            field("ld_d", &PackedProblem::ld_d),
                                            younger("ld_c", &PackedProblem::ld_c)};
};

template <>
struct FieldsOf<NarrowConfig> {
  using C = NarrowConfig;
  using O = packed::Overrides;
  static constexpr const char* kKernel = "narrow";
  static constexpr auto kTable = std::tuple{
      field("weights", &C::weights),
      field("x", &C::x),
      field("d", &C::d),
      field("bias", &C::bias),
      field("bias_type", &C::bias_type),
      field("activation", &C::activation),
      younger("gated", &C::gated),
      younger("norm_x", &C::norm_x),
      younger("residual", &C::residual),
      younger("held_tokens", &C::held_tokens),
      choice("token_blocks", &C::token_blocks, &O::token_blocks, {1, 4}, "Tokens of a tile / 8: 1, 2, 4"),
      choice("row_blocks", &C::row_blocks, &O::row_blocks, {2, 8}, "Outputs of a tile / 16: 2, 4, 8"),
      choice("warps", &C::warps, &O::warps, {1, 16}, "Warps of a CTA: 1 to 16"),
      choice("stages", &C::stages, &O::stages, {2, 32}, "Slots of a warp's ring, 128 k each"),
      choice("parts", &C::parts, &O::parts, {1, 8},
             "CTAs of a cluster, which share k: 1, 2, 4, 8 (strip: 1 to 8)"),
      choice("ctas", &C::ctas, &O::ctas, {1, 64}, "CTAs that share an SM"),
      younger("overlap", &C::overlap)};
};

template <>
struct FieldsOf<WideConfig> {
  using C = WideConfig;
  using O = packed::Overrides;
  static constexpr const char* kKernel = "wide";
  static constexpr auto kTable =
      std::tuple{field("weights", &C::weights),
                 field("x", &C::x),
                 field("d", &C::d),
                 field("bias", &C::bias),
                 field("bias_type", &C::bias_type),
                 field("activation", &C::activation),
                 choice("tokens", &C::tokens, &O::tokens, {8, 256},
                        "Tokens of a tile: a multiple of 8, up to 256 (strip: 192)"),
                 choice("cluster_n", &C::cluster_n, &O::cluster_n, {1, 2},
                        "CTAs of a cluster, which share tokens: 1, 2"),
                 choice("x_stages", &C::x_stages, &O::x_stages, {2, 16},
                        "Slots of the tokens' ring, 64 k each: 2 to 16"),
                 choice("w_stages", &C::w_stages, &O::w_stages, {1, 16},
                        "Slots of the weights' ring, 128 k each: 1 to 16"),
                 younger("overlap", &C::overlap)};
};

template <>
struct FieldsOf<StripConfig> {
  using C = StripConfig;
  using O = packed::Overrides;
  static constexpr const char* kKernel = "strip";
  static constexpr auto kTable =
      std::tuple{field("weights", &C::weights),
                 field("x", &C::x),
                 field("d", &C::d),
                 field("scale_x", &C::scale_x),
                 field("bias", &C::bias),
                 field("bias_type", &C::bias_type),
                 field("activation", &C::activation),
                 younger("gated", &C::gated),
                 younger("scale_d", &C::scale_d),
                 choice("tokens", &C::tokens, &O::tokens, {8, 256}, "Tokens of a tile: a multiple of 8"),
                 choice("strips", &C::strips, &O::strips, {1, 4}, "64 outputs each, of a CTA: 1 to 4"),
                 choice("k_groups", &C::k_groups, &O::k_groups, {1, 4}, "Warpgroups that share a strip"),
                 choice("parts", &C::parts, &O::parts, {1, 8}, "CTAs of a cluster, which share k: 1 to 8"),
                 choice("stages", &C::stages, &O::stages, {2, 32}, "Slots of the ring, 128 k each"),
                 younger("overlap", &C::overlap)};
};

/// The fields that the planner chooses in any packed kernel, each once, as fields of packed::Overrides. Name
/// and help are those of the first kernel that has the field. The range covers all kernels.
struct PackedChoices {
  std::array<Field<packed::Overrides, std::optional<int>>, 32> rows{};
  std::size_t count = 0;

  template <class Owner, class Member>
  constexpr void add(const Field<Owner, Member>& row) {
    if (row.overrule == nullptr) return;
    for (std::size_t i = 0; i < count; ++i)
      if (rows[i].member == row.overrule) {
        rows[i].range = {std::min(rows[i].range.least, row.range.least),
                         std::max(rows[i].range.most, row.range.most)};
        return;
      }
    rows[count++] = {row.name, row.overrule, Shown::unless_default, row.range, row.help};
  }
};
constexpr PackedChoices packed_choices() {
  PackedChoices found;
  const auto add_all = [&](const auto&... rows) { (found.add(rows), ...); };
  std::apply(add_all, FieldsOf<NarrowConfig>::kTable);
  std::apply(add_all, FieldsOf<WideConfig>::kTable);
  std::apply(add_all, FieldsOf<StripConfig>::kTable);
  return found;
}

template <std::size_t... kIndex>
constexpr auto packed_override_table(std::index_sequence<kIndex...>) {
  using O = packed::Overrides;
  return std::tuple{
      packed_choices().rows[kIndex]...,
      choice("ignore_records", &O::ignore_records, "Plan as if the problem had never been tuned"),
      choice("overlap", &O::overlap, "Overlap with the launches before and behind")};
}
template <>
struct FieldsOf<packed::Overrides> {
  static constexpr auto kTable = packed_override_table(std::make_index_sequence<packed_choices().count>());
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
static_assert(all_have_rows<TileShape, ClusterShape, Matrix, Epilogue, Axes, Conv, ConvKind, Problem, Overlap,
                            KernelConfig, WorkSplit, PlanOverrides, WeightFormat, PackedProblem, NarrowConfig,
                            WideConfig, StripConfig, packed::Overrides>,
              "a member has no row in its table above");

}  // namespace sluice
