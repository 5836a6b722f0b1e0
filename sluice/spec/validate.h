// SPDX-License-Identifier: Apache-2.0
// The reasons why a config is impossible. The planner filters with them, the printer shows them, and the
// kernel static_asserts them.
#pragma once

#include <sluice/spec/smem_layout.h>

namespace sluice {

/// Rules for epilogue and D, in every schedule.
SLUICE_HD constexpr const char* validate_epilogue(const KernelConfig& c) {
  if (c.epilogue.bias != Bias::none && !is_addend(c.epilogue.bias_type))
    return "bias must be bf16, fp16 or fp32";
  const bool each_column = scales_each_column(c.epilogue);
  if (c.epilogue.scale_a == ScaleMode::vector128) return "vector128 is a scale of B; A's is block";
  if (is_block_scaled(c.epilogue) != scales_128_of_k(c.epilogue.scale_b))
    return "block scales come on both inputs or on neither";
  if (each_column && !c.scale_a_columns) return "vector128 scales of B need those of A by columns";
  if (each_column && is_plain(c.schedule)) return "plain schedules take no vector128 scales of B";
  if (each_column && has_groups(c)) return "groups take no vector128 scales of B";
  if (each_column && c.epilogue.gated) return "gated products take no vector128 scales of B";
  if (c.scale_a_columns && !is_block_scaled(c.epilogue))
    return "scale_a_columns is for block scales: others have one value for a row";
  if (c.epilogue.residual && !is_addend(c.epilogue.c_type)) return "C must be bf16, fp16 or fp32";
  if (adds(c.epilogue) && c.d != DType::fp32) return "Update::add needs an fp32 D";
  if (adds(c.epilogue) &&
      (c.epilogue.bias != Bias::none || c.epilogue.residual || c.epilogue.activation != Activation::none))
    return "Update::add takes no bias, residual or activation: it is D += the scaled product";
  if (c.epilogue.scale_d == ScaleMode::vector || c.epilogue.scale_d == ScaleMode::vector128)
    return "scale_d must be none, tensor or block: a vector of scales of D is neither read nor computed";
  if (c.epilogue.scale_d != ScaleMode::none && c.d != DType::e4m3) return "scale_d is for an e4m3 D";
  if (!c.epilogue.row_factors) return nullptr;
  if (adds(c.epilogue)) return "factors of rows and Update::add: the result must be stored as it is";
  if (is_plain(c.schedule)) return "plain schedules take no factors of rows: their rows are columns";
  if (is_swapped(c)) return "swapped operands take no factors of rows";
  if (c.conv.op != ConvOp::none) return "a convolution takes no factors of rows";
  if (c.combine == Combine::separate) return "factors of rows have no Combine::separate";
  return nullptr;
}

/// Rules for block scales of D, which the kernel computes.
SLUICE_HD constexpr const char* validate_scale_out(const KernelConfig& c) {
  if (!writes_scales(c.epilogue)) return nullptr;
  if (is_plain(c.schedule))
    return "plain schedules compute no scales of D: several warps have a row's columns";
  if (c.conv.op != ConvOp::none) return "a convolution computes no scales of D";
  if (c.combine != Combine::none)
    return "block scales of D need combine = none: sums that are added up leave no room for 128 results";
  if (c.cluster.k > 1) return "block scales of D need cluster.k = 1: a thread keeps 128 columns in registers";
  return nullptr;
}

/// Rules for the tile of a kernel with block scales of D. Call behind those of tiles and clusters.
SLUICE_HD constexpr const char* validate_scale_out_tile(const KernelConfig& c) {
  if (!writes_scales(c.epilogue)) return nullptr;
  if (own_outputs(c) % kScaleBlock != 0)
    return "block scales of D need tile.n of 128 or 256, with a gate of 256: a tile has whole blocks";
  if (c.cluster.m > 1 && accumulator_registers(c) > 176)
    return "block scales of D and more than 176 accumulator registers need cluster.m = 1: one would spill";
  if (!c.promotes && !c.epilogue.gated && sum_registers(c) > 64)
    return "block scales of D without a gate or promotion leave room for 64 sums a thread: lower the tile";
  return nullptr;
}

/// Rules for gated products.
SLUICE_HD constexpr const char* validate_gated(const KernelConfig& c) {
  if (clamps(c.epilogue.activation) && !c.epilogue.gated)
    return "clamped_swiglu needs a gated product: it clamps gate and up";
  if (!c.epilogue.gated) return nullptr;
  if (c.epilogue.residual || adds(c.epilogue)) return "a gated product takes no residual and no Update::add";
  if (c.b_major != Major::k)
    return "a gated product needs a K-major B: a tile takes rows from both of its halves";
  if (c.combine == Combine::separate)
    return "a gated product has no Combine::separate: its CTAs do not hold both halves";
  return nullptr;
}

/// Rules for swapped operands (KernelConfig::d_major).
SLUICE_HD constexpr const char* validate_swapped(const KernelConfig& c) {
  if (!is_swapped(c) && c.epilogue.bias == Bias::row) return "a bias of rows is for swapped operands";
  if (!is_swapped(c)) return nullptr;
  if (is_plain(c.schedule)) return "plain schedules do not swap operands";
  if (!is_16bit(c.d)) return "swapped operands need a 16-bit D: its fragments are transposed by stmatrix";
  if (c.store != StorePath::tma)
    return "swapped operands need store = tma: their pairs are not neighbours in D";
  if (c.epilogue.bias == Bias::column)
    return "swapped operands have a bias of rows: columns are the caller's";
  if (c.epilogue.residual || c.epilogue.gated) return "swapped operands take no residual and no gate";
  if (is_block_scaled(c.epilogue)) return "swapped operands take no block scales";
  if (c.combine == Combine::separate)
    return "swapped operands have no Combine::separate: the second kernel writes rows of D";
  return nullptr;
}

/// Rules for gathered operands (KernelConfig::conv).
SLUICE_HD constexpr const char* validate_conv(const KernelConfig& c) {
  const ConvOp op = c.conv.op;
  if (op == ConvOp::none && c.conv != ConvKind{})
    return "conv.spatial and conv.phased are for a conv.op: leave them out";
  if (op == ConvOp::none) return nullptr;
  if (c.schedule != Schedule::ping_pong && c.schedule != Schedule::cooperative)
    return "plain schedules do not gather: use ping_pong or cooperative";
  if (c.conv.spatial < 1 || c.conv.spatial > kMostSpatial) return "conv.spatial must be 1, 2 or 3";
  const Major a_major = op == ConvOp::wgrad ? Major::mn : Major::k;
  const Major b_major = op == ConvOp::fprop ? Major::k : Major::mn;
  if (c.a_major != a_major || c.b_major != b_major)
    return "majors of A and B must be k, k (fprop), k, mn (dgrad) or mn, mn (wgrad)";
  if (is_swapped(c)) return "a convolution's operands are not swapped";
  if (c.epilogue.gated || is_block_scaled(c.epilogue))
    return "a convolution takes no gate and no block scales";
  if (accumulator_registers(c) > 192)
    return "more than 192 accumulator registers leave too few to a load thread that gathers: narrow tile.n";
  if (op == ConvOp::wgrad && c.tile.n % kMnBlock != 0)
    return "tile.n of a wgrad must be a multiple of 64: its columns are 64 channels at a tap";
  if (op == ConvOp::dgrad && is_fp8(c.d)) return "a dgrad needs a 16-bit or fp32 D";
  if (op == ConvOp::wgrad && is_fp8(c.d)) return "a wgrad needs a 16-bit or fp32 D: 128 bytes lie at one tap";
  if (op == ConvOp::wgrad &&
      (c.epilogue.bias != Bias::none || c.epilogue.residual || c.epilogue.activation != Activation::none ||
       c.epilogue.scale_a != ScaleMode::none || c.epilogue.scale_b != ScaleMode::none))
    return "a wgrad takes no bias, residual, activation or scale";
  if (op == ConvOp::wgrad && c.overlap.wait == Wait::weights_first)
    return "a wgrad reads no weights: wait = weights_first must be another";
  if (op == ConvOp::dgrad && (c.epilogue.bias != Bias::none || c.epilogue.activation != Activation::none ||
                              c.epilogue.scale_a != ScaleMode::none || c.epilogue.scale_b != ScaleMode::none))
    return "a dgrad takes no bias, activation or scale";
  if (op != ConvOp::wgrad && adds(c.epilogue)) return "Update::add of a convolution is for wgrad";
  if (c.conv.phased && op != ConvOp::dgrad) return "phases are those of a dgrad with a stride";
  if (c.conv.phased && (c.cluster.m > 1 || c.cluster.k > 1 || c.combine != Combine::none))
    return "phases need clusters of 1 x 1 or 1 x 2 and combine = none: they differ in k";
  if (c.conv.phased && c.epilogue.residual) return "phases take no residual";
  if (c.conv.phased && c.store != StorePath::tma) return "phases need store = tma: their pixels lie apart";
  return nullptr;
}

/// Rules for operands that TMA cannot address (Load::strided).
SLUICE_HD constexpr const char* validate_strided(const KernelConfig& c) {
  if (!loads_strided(c)) return nullptr;
  if (c.conv.op != ConvOp::none) return "a convolution's operands come by TMA: load_a and load_b must be tma";
  if (is_fp8(c.a)) return "strided loads are for 16-bit operands";
  if (is_plain(c.schedule)) return "plain schedules copy 16 bytes at a time: strided loads need roles";
  if (c.cluster.m > 1 || c.cluster.n > 1)
    return "strided loads are not multicast: cluster.m and cluster.n must be 1";
  if (sum_registers(c) > 128)
    return "more than 128 sums a thread leave too few registers to warps that load strided operands";
  return nullptr;
}

SLUICE_HD constexpr const char* validate_groups_of_rows(const KernelConfig& c) {
  if (c.a_major != Major::k) return "groups need a K-major A: their rows end anywhere";
  if (c.cluster.m > 1) return "groups need cluster.m = 1: their tiles along m are neighbours in no matrix";
  if (adds(c.epilogue)) return "groups of rows need Update::set";
  return nullptr;
}
SLUICE_HD constexpr const char* validate_groups_along_k(const KernelConfig& c) {
  const Epilogue& e = c.epilogue;
  if (c.a_major != Major::mn || c.b_major != Major::mn)
    return "groups along k need MN-major operands: the rows that are summed over must be rows in memory";
  if (c.cluster.k > 1) return "groups along k need cluster.k = 1: their sizes are on the device";
  if (e.bias != Bias::none || e.scale_a == ScaleMode::vector || e.scale_b == ScaleMode::vector || e.gated)
    return "groups along k have no bias, no vectors of scales and no gate";
  return nullptr;
}

/// Rules for groups (KernelConfig::groups).
SLUICE_HD constexpr const char* validate_groups(const KernelConfig& c) {
  if (!reads_table(c) && c.groups.most != 0) return "groups.most is for a groups.kind: leave it out";
  if (!reads_table(c)) return nullptr;
  if (c.groups.most < 1 || c.groups.most > kMostGroups) return "groups.most must be in 1..1024";
  if (by_slots(c) && c.schedule != Schedule::plain)
    return "groups by slots need schedule = plain: a tile has one row";
  if (!by_slots(c) && c.schedule != Schedule::ping_pong && c.schedule != Schedule::cooperative)
    return "groups by ends, counts or along k need roles: use ping_pong or cooperative";
  if (is_swapped(c)) return "groups are not swapped: their rows are rows of tiles";
  if (c.conv.op != ConvOp::none || loads_strided(c))
    return "groups are loaded by TMA, and are no convolution";
  if (c.combine != Combine::none) return "groups need combine = none: their sizes are on the device";
  if (const char* rule = sums_groups(c) ? validate_groups_along_k(c) : validate_groups_of_rows(c);
      rule != nullptr)
    return rule;
  if (accumulator_registers(c) > 192)
    return "more than 192 accumulator registers leave too few to the roles that search groups: narrow tile.n";
  if (c.overlap.wait == Wait::weights_first)
    return "groups read their table before weights: wait = weights_first must be another";
  return nullptr;
}

/// True if a field is set that only kernels for packed weights have.
SLUICE_HD constexpr bool has_decoder_fields(const KernelConfig& c) {
  return !(c.packed == kNotPacked) || c.norm_a || c.ctas != 0 || c.held_rows != 0 || c.k_groups != 0 ||
         c.w_stages != 0 || c.epilogue.residual_last;
}

/// The rule that the config breaks, as text; nullptr if it can be compiled and run.
SLUICE_HD constexpr const char* validate(const KernelConfig& c) {
  if (decodes(c.schedule)) return "the schedules narrow, wide and strip are for packed weights";
  if (has_decoder_fields(c))
    return "packed, norm_a, ctas, held_rows, k_groups, w_stages and residual_last are for packed weights";
  const bool ping_pong = c.schedule == Schedule::ping_pong;
  if (!is_input(c.a) || !is_input(c.b)) return "A and B must be bf16, fp16, e4m3 or e5m2";
  if (!is_output(c.d)) return "D must be bf16, fp16, fp32 or e4m3";
  if (is_fp8(c.a) != is_fp8(c.b)) return "A and B must both be 8-bit or both be 16-bit";
  if (is_16bit(c.a) && c.a != c.b) return "16-bit A and B must have the same type";
  if (is_fp8(c.a) && (c.a_major != Major::k || c.b_major != Major::k))
    return "fp8 operands must be K-major: WGMMA has no transposed form for them";
  if (c.tile.k != k_block(c.a)) return "tile.k must be one 128-byte row: 64 for 16-bit inputs, 128 for fp8";
  if (const char* rule = validate_epilogue(c); rule != nullptr) return rule;
  if (const char* rule = validate_gated(c); rule != nullptr) return rule;
  if (const char* rule = validate_swapped(c); rule != nullptr) return rule;
  if (const char* rule = validate_conv(c); rule != nullptr) return rule;
  if (const char* rule = validate_strided(c); rule != nullptr) return rule;
  if (const char* rule = validate_groups(c); rule != nullptr) return rule;
  if (const char* rule = validate_scale_out(c); rule != nullptr) return rule;
  if (is_plain(c.schedule)) return validate_plain(c);
  if (c.warps != 0) return "warps is for plain schedules: the others have 12";
  if (overlaps(c.overlap) && c.combine == Combine::separate)
    return "Combine::separate has a second kernel, so it cannot overlap with other launches";
  if (ping_pong && c.tile.m != 64 && c.tile.m != 128) return "ping_pong needs tile.m of 64 or 128";
  if (!ping_pong && c.tile.m != 128 && c.tile.m != 256) return "cooperative needs tile.m of 128 or 256";
  if (c.tile.n < 8 || c.tile.n > 256 || c.tile.n % 8 != 0) return "tile.n must be a multiple of 8 in 8..256";
  if (c.stages < 2 || c.stages > 16) return "stages must be in 2..16";
  // Each extent is checked before their product, which could overflow to a small int.
  if (c.cluster.m < 1 || c.cluster.n < 1 || c.cluster.k < 1 || c.cluster.m > kMaxClusterCtas ||
      c.cluster.n > kMaxClusterCtas || c.cluster.k > kMaxClusterCtas || cluster_size(c) > kMaxClusterCtas)
    return "the cluster must hold 1 to 8 CTAs";
  if ((cluster_size(c) & (cluster_size(c) - 1)) != 0)
    return "cluster.m, cluster.n and cluster.k must be powers of two";
  if (c.cluster.k > 1 && multicasts(c)) return "a cluster along k must be 1 along m and n";
  if (c.tile.n % (8 * c.cluster.k) != 0) return "each CTA of a cluster along k needs 8 of the tile's columns";
  if (const char* rule = validate_scale_out_tile(c); rule != nullptr) return rule;
  if (c.epilogue.gated && (own_columns(c) % kGatedGroup != 0 || c.tile.n % (kGatedGroup * c.cluster.m) != 0))
    return "a gated product needs whole groups of 16 columns for each CTA of a tile";
  if (bytes_of(c.d) * own_outputs(c) % 16 != 0 && c.store == StorePath::tma)
    return "a TMA store needs rows of a multiple of 16 bytes: widen tile.n or store direct";
  if (c.cluster.n > 1 && c.tile.m / c.cluster.n % 8 != 0)
    return "a multicast slice of A must be a multiple of 8 rows";
  if (c.cluster.m > 1 && c.b_major == Major::k && c.tile.n / c.cluster.m % 8 != 0)
    return "a multicast slice of B must be a multiple of 8 rows";
  if (c.cluster.m > 1 && c.tile.n % c.cluster.m != 0) return "cluster.m must divide tile.n";
  if (c.promotes && !is_fp8(c.a)) return "promotion is for fp8 inputs; 16-bit sums are kept in fp32";
  if (is_block_scaled(c.epilogue) && !c.promotes) return "block scales need promotion";
  if (is_block_scaled(c.epilogue) && c.tile.m > 128)
    return "block scales need tile.m of at most 128: the warps that bring them hold those of some k-tiles";
  if (is_block_scaled(c.epilogue) && c.tile.n % 32 != 0)
    return "block scales need tile.n to be a multiple of 32: a thread holds one for each part of 128 columns";
  if (is_block_scaled(c.epilogue) && c.epilogue.gated && c.tile.n % 64 != 0)
    return "block scales of a gated product need tile.n to be a multiple of 64: a part is of one half of B";
  if (unit_columns(c) % 8 != 0) return "promoted sums in two halves need tile.n to be a multiple of 16";
  if (accumulator_registers(c) > kMaxAccumulatorRegisters)
    return "the accumulators need more than 208 registers a thread and would spill";
  if (c.combine == Combine::add && !adds(c.epilogue))
    return "Combine::add adds the parts of a tile to D: it needs Update::add";
  if (c.combine == Combine::last_arriver && sum_registers(c) > 144)
    return "more than 144 sums a thread leave no room to add up the slots of a split: narrow tile.n";
  if (accumulator_registers(c) > 192 && !is_light(c.epilogue))
    return "more than 192 accumulator registers leave no room for a heavy epilogue: narrow tile.n";
  if (accumulator_registers(c) > 176 && c.epilogue.residual)
    return "more than 176 accumulator registers leave no room for a residual: narrow tile.n";
  if (accumulator_registers(c) > 176 && c.epilogue.gated && !writes_scales(c.epilogue) &&
      (c.epilogue.bias != Bias::none || c.epilogue.activation == Activation::gelu ||
       clamps(c.epilogue.activation)))
    return "more than 176 accumulators leave no room for a gate with gelu, a clamp or a bias: narrow tile.n";
  if (smem_bytes(c) > kMaxSmemBytes) return "stages and buffers need more than 227 KB of shared memory";
  return nullptr;
}

}  // namespace sluice
