// SPDX-License-Identifier: Apache-2.0
// Packed weights: products whose B is a blob of few-bit weights W (Matrix::packed), with 16-bit tokens, or
// e4m3 tokens and 4-bit weights. "Tokens" are the rows of A, called X here.
//   D[m][n] = act(scale_a[m] * sum_k X[m][k] W[n][k] + bias[n]) + C[m][n],  W = scale * (code - zero)
//   (spec/packing.h)
// - gated: D[m][j] = act(y[m][j]) * y[m][n / 2 + j] for j < n / 2, where y is the value before act. The first
//   half of W's rows is the gate, the second half "up", as models concatenate them. In the blob each half
//   begins a strip.
// - scale_d: D is divided by it before it is rounded (spec/epilogue.h).
// - norm_a: each row of X is divided by its root mean square and multiplied by gamma: W multiplies x[k] *
//   gamma[k], and a token's sums are divided by sqrt(mean_k(x[k]^2) + epsilon).
// - residual: C, of D's type, is added last.
// A tile's rows are W's. An output is a row of the tensor core's A and a token a column of its B. Only with
// 16 and 32 tokens in narrow.cuh, tokens are the rows of A instead (device/packed/token_rows.cuh).
// - groups: the tokens belong to groups, and each has a blob and a bias of its own (spec/groups.h).
// This file holds the config of the kernel for few 16-bit tokens (kernels/narrow.cuh).
#pragma once

#include <sluice/spec/overlap.h>
#include <sluice/spec/problem.h>
#include <sluice/spec/smem_room.h>
#include <sluice/spec/warp_sums.h>

namespace sluice {

/// Returns the product of m rows of type `a` by packed weights of n rows of k.
SLUICE_HD constexpr Problem packed_problem(i64 m, i64 n, i64 k, DType a, DType d,
                                           const WeightFormat& weights = {}) {
  Problem p{.m = m, .n = n, .k = k};
  p.a.type = p.b.type = a;
  p.b.packed = weights;
  p.d.type = d;
  return p;
}
/// Adds to a problem of packed weights that C is added to D last.
SLUICE_HD constexpr void add_residual(Problem& p) {
  p.epilogue.residual = p.epilogue.residual_last = true;
  p.epilogue.c_type = p.d.type;
}

SLUICE_HD constexpr i64 strip_count(const Problem& p) {
  return p.epilogue.gated ? gated_strips(p.n) : strip_count(p.n);
}
/// Bytes of B's blob of packed weights, with scales and padding; of one blob, if each group has its own.
SLUICE_HD constexpr i64 blob_bytes(const Problem& p) {
  return strip_count(p) * strip_bytes(p.b.packed, p.k);
}
/// Bits of the blob per weight.
SLUICE_HD constexpr double stored_bits(const Problem& p) {
  return bits_each(blob_bytes(p), p.n, p.k);
}

/// The config of the narrow kernel; one config is one cubin. A CTA multiplies 16 * row_blocks rows of W by 8
/// * token_blocks tokens. Its warps take k-tiles in turn, each with a ring of its own, and add up their sums
/// in shared memory. `parts` CTAs of a cluster divide k. Gated, half of the rows belong to a strip of the
/// gate and half to the matching strip of "up", half of the blob further on.
struct NarrowConfig {
  WeightFormat weights{};
  DType x = DType::fp16;
  DType d = DType::fp16;
  Bias bias = Bias::none;
  DType bias_type = DType::fp16;
  Activation activation = Activation::none;
  bool gated = false;
  bool norm_a = false;
  bool residual = false;
  // Tokens of a tile of 8 that are kept in shared memory: 1, 4, or 0 for all 8. A single token would
  // otherwise be stored with seven rows of zeros, which take as many bytes as half of its codes.
  int held_tokens = 0;
  int token_blocks = 1;  // 1, 2 or 4
  int row_blocks = 4;    // 2 (half a strip), 4 or 8
  int warps = 8;
  int stages = 4;  // k-tiles per ring of a warp
  int parts = 1;   // slices of k, one per CTA of a cluster: 1, 2, 4 or 8
  int ctas = 1;    // CTAs per SM
  Overlap overlap{};
  GroupConfig groups{};

  constexpr bool operator==(const NarrowConfig&) const = default;
};

inline constexpr int kBlockRows = 16;
inline constexpr int kTokenBlock = 8;
inline constexpr int kNormTokens = kTokenBlock;  // most tokens with norm_a

SLUICE_HD constexpr int tile_rows(const NarrowConfig& c) {
  return kBlockRows * c.row_blocks;
}
SLUICE_HD constexpr int tile_tokens(const NarrowConfig& c) {
  return kTokenBlock * c.token_blocks;
}
/// Strips that a CTA's rows are in; half a strip counts as one.
SLUICE_HD constexpr int tile_strips(const NarrowConfig& c) {
  return c.gated ? 2 : ceil_div(c.row_blocks, 4);
}
/// Blocks of the CTA in each of these strips.
SLUICE_HD constexpr int strip_blocks(const NarrowConfig& c) {
  return c.row_blocks / tile_strips(c);
}
/// Columns of D that a CTA stores.
SLUICE_HD constexpr int tile_columns(const NarrowConfig& c) {
  return c.gated ? tile_rows(c) / 2 : tile_rows(c);
}
/// Distance between the CTA's two strips, counted in strips; gated: the strips of half of W. `columns`: of D.
SLUICE_HD constexpr int strip_step(const NarrowConfig& c, int columns) {
  return c.gated ? ceil_div(columns, kStripRows) : 1;
}
SLUICE_HD constexpr int threads_of(const NarrowConfig& c) {
  return 32 * c.warps;
}

// A stage holds tokens, then the codes of the CTA's blocks, then all scales and zeros of each strip, then
// with norm_a gamma for its k. Tokens are stored in two halves of 64 k, as rows of 128 bytes with 16-byte
// pieces swizzled by the row.
SLUICE_HD constexpr int stage_tokens(const NarrowConfig& c) {
  return c.held_tokens == 0 ? tile_tokens(c) : c.held_tokens;
}
SLUICE_HD constexpr int stage_token_bytes(const NarrowConfig& c) {
  return stage_tokens(c) * kPackedTileK * bytes_of(c.x);
}
SLUICE_HD constexpr int stage_code_bytes(const NarrowConfig& c) {
  return c.row_blocks * tile_code_bytes(c.weights) / 4;
}
SLUICE_HD constexpr int strip_scale_bytes(const NarrowConfig& c) {
  return tile_scale_bytes(c.weights) + tile_zero_bytes(c.weights);
}
SLUICE_HD constexpr int gamma_offset(const NarrowConfig& c) {
  return stage_token_bytes(c) + stage_code_bytes(c) + tile_strips(c) * strip_scale_bytes(c);
}
SLUICE_HD constexpr int stage_bytes(const NarrowConfig& c) {
  return gamma_offset(c) + (c.norm_a ? kPackedTileK * bytes_of(c.x) : 0);
}
SLUICE_HD constexpr WarpTile warp_tile(const NarrowConfig& c) {
  return {.rows = tile_rows(c),
          .columns = tile_tokens(c),
          // gated: a CTA's share must be whole columns
          .used = c.gated && c.parts > 1 ? tile_tokens(c) : stage_tokens(c),
          .warps = c.warps,
          .parts = c.parts,
          .pad = c.token_blocks == 1 ? 4 : 8};
}
/// Offset of 16 bytes of zeros per warp, which follow the rings. They are read in place of tokens that do not
/// exist.
SLUICE_HD constexpr int zeros_offset(const NarrowConfig& c) {
  return c.warps * c.stages * stage_bytes(c);
}
/// Offset of the sums of squares of tokens in fp32: one slot per warp and one per CTA of the cluster. They
/// follow the rings, and also the CTA's own sums, which overlay the rings.
SLUICE_HD constexpr int squares_offset(const NarrowConfig& c) {
  return max(zeros_offset(c) + (c.held_tokens == 0 ? 0 : 16 * c.warps), warp_sums_bytes(warp_tile(c)));
}
/// Bytes of one such slot.
SLUICE_HD constexpr int squares_slot_bytes(const NarrowConfig& c) {
  return 16 * ceil_div(stage_tokens(c), 4);
}
SLUICE_HD constexpr int squares_bytes(const NarrowConfig& c) {
  return c.norm_a ? squares_slot_bytes(c) * (c.warps + (c.parts > 1 ? c.parts : 0)) : 0;
}
/// Offset of sums that arrive from the cluster; this memory has no other use.
SLUICE_HD constexpr int incoming_offset(const NarrowConfig& c) {
  return squares_offset(c) + squares_bytes(c);
}
SLUICE_HD constexpr i64 smem_bytes(const NarrowConfig& c) {
  return incoming_offset(c) + incoming_sums_bytes(warp_tile(c));
}

/// The rule of groups that the config breaks. The table lies where the rings will.
SLUICE_HD constexpr const char* validate_groups(const NarrowConfig& c) {
  if (c.groups.kind == GroupKind::none)
    return c.groups.most == 0 ? nullptr : "groups.most is for a groups.kind: leave it out";
  if (!groups_rows(c.groups.kind)) return "packed weights have no groups along k";
  if (c.groups.most < 1 || c.groups.most > kMostGroups) return "groups.most must be in 1..1024";
  if (c.norm_a || c.residual) return "groups have neither norm_a nor a residual";
  if (c.held_tokens != 0) return "held_rows must be 0: any group may have all rows";
  if (c.overlap.wait == Wait::weights_first)
    return "groups read their table before weights: wait = weights_first must be another";
  if (c.groups.kind != GroupKind::slots && 4 * group_table_ints(c.groups.most) > zeros_offset(c))
    return "the rings are smaller than the table of groups: more stages or warps, or fewer groups";
  return nullptr;
}

/// The rule that the config breaks, as text; nullptr if it is valid.
SLUICE_HD constexpr const char* validate(const NarrowConfig& c) {
  if (validate(c.weights) != nullptr) return validate(c.weights);
  if (c.weights.order != FragmentOrder::half) return "a 16-bit A takes weights in the order half";
  if (!is_16bit(c.x)) return "A must be fp16 or bf16";
  if (!is_16bit(c.d) && c.d != DType::fp32) return "D must be fp16, bf16 or fp32";
  if (c.bias != Bias::none && !is_addend(c.bias_type)) return "bias must be bf16, fp16 or fp32";
  if (c.token_blocks != 1 && c.token_blocks != 2 && c.token_blocks != 4) return "tile_m must be 8, 16 or 32";
  if (c.row_blocks != 2 && c.row_blocks != 4 && c.row_blocks != 8)
    return "tile_n must be 32, 64 or 128: half a strip, one or two";
  if (c.norm_a && (c.x != DType::bf16 || c.token_blocks != 1))
    return "norm_a takes bf16 A in tiles of 8 rows (tile_m = 8)";
  if (c.residual && c.gated) return "a gated product adds no residual";
  if (c.gated && c.row_blocks == 2)
    return "gated, tile_n must be 64 or 128: pairs of blocks of the gate, and as many of up";
  if (c.held_tokens != 0 && (c.token_blocks != 1 || (c.held_tokens != 1 && c.held_tokens != 4)))
    return "held_rows must be 0, or 1 or 4 with tile_m = 8";
  if (c.token_blocks * c.row_blocks > 16)
    return "more than 16 blocks of 16 rows x 8 tokens do not fit in registers";
  if (c.warps < 1 || c.warps > 16) return "warps must be in 1..16";
  if (c.stages < 2 || c.stages > 16) return "stages must be in 2..16";
  if (c.parts != 1 && c.parts != 2 && c.parts != 4 && c.parts != 8) return "cluster_k must be 1, 2, 4 or 8";
  if (c.ctas < 1 || c.ctas > 64 || c.ctas * c.warps > 64) return "an SM holds 64 warps";
  if (const char* rule = validate_groups(c)) return rule;
  if (smem_bytes(c) > kMaxSmemBytes) return "the rings need more than 227 KB of shared memory";
  if (c.ctas * (smem_bytes(c) + kSmemOfCta) > kSmemOfSm) return "so many CTAs need more than 228 KB of an SM";
  return nullptr;
}

/// The launch parameters.
struct NarrowParams {
  const void* weights;
  const void* x;
  void* d;
  const void* bias;
  i64 strip_bytes;
  i64 ld_x, ld_d;
  int m, n, k;  // n: columns of D
  int k_tiles;
  // true if rows of D (and C) begin at multiples of 4 elements and n is one: four elements take one store
  bool vectors;
  WarmRange prefetch, hand_off;  // for launches that overlap others: before the PDL wait, after the last load
  // Append new fields here: earlier offsets, and so the machine code of other kernels, stay the same.
  const void* gamma;
  const void* c;
  i64 ld_c;
  float epsilon;
  // With groups, `m` is the rows of all; weights and bias are those of the first group.
  const int* group_numbers;
  i64 blob_bytes;  // from one group's weights to the next one's
  int group_count, group_pitch;
};

}  // namespace sluice
