// SPDX-License-Identifier: Apache-2.0
// Packed weights with e4m3 tokens, or with 17 to 128 tokens of 16 bits: the config of kernels/strip.cuh,
// derived values, and its launch parameters. The problem is that of spec/packed.h:
//   D[m][n] = act(scale_x[m] * sum_k X[m][k] W[n][k] + bias[n]),  W = scale * (code - zero)
// Codes become WGMMA's A in registers; tokens are its B, in shared memory. With e4m3 tokens the tensor core
// accumulates products of at most 128 k, and fp32 registers accumulate those sums. With 16-bit tokens A holds
// weights in the tokens' type, and the tensor core accumulates all of a warpgroup's k.
#pragma once

#include <sluice/spec/packed.h>
#include <sluice/spec/params.h>

namespace sluice {

/// The config of the strip kernel; one config is one cubin. A CTA has strips * k_groups math warpgroups. Each
/// takes one strip (64 outputs) and, of the CTA's k, every k_groups-th tile of 128. `parts` CTAs of a cluster
/// divide k. Gated, half of the strips belong to the gate and half to "up", half of the blob further on.
struct StripConfig {
  WeightFormat weights{.order = FragmentOrder::byte};
  DType x = DType::e4m3;                // or fp16, bf16, with weights of order half
  DType d = DType::fp16;                // with e4m3 tokens also e4m3
  ScaleMode scale_x = ScaleMode::none;  // e4m3 tokens: none, tensor (one for all) or vector (one per token)
  Bias bias = Bias::none;
  DType bias_type = DType::fp16;
  Activation activation = Activation::none;
  bool gated = false;
  ScaleMode scale_d = ScaleMode::none;  // tensor: an e4m3 D is divided by one fp32
  int tokens = 16;                      // per tile: any multiple of 8 up to most_strip_tokens()
  int strips = 4;                       // per CTA: 1 to 4
  int k_groups = 1;                     // warpgroups that share a strip
  int parts = 1;                        // slices of k, one per CTA of a cluster: 1..8
  int stages = 8;                       // a stage: 128 k of the tokens and of each strip
  Overlap overlap{};

  constexpr bool operator==(const StripConfig&) const = default;
};

inline constexpr int kStripMostGroups = 4;

SLUICE_HD constexpr int math_groups(const StripConfig& c) {
  return c.strips * c.k_groups;
}
/// Most tokens per tile for which the accumulators of a thread fit in registers together with the operands.
/// `groups`: math warpgroups per CTA (ptxas 13.0, docs/findings/int4-widths.md). With e4m3 tokens there are
/// partial sums too.
SLUICE_HD constexpr int most_strip_tokens(DType x, int groups) {
  const bool half = is_16bit(x);
  switch (groups) {
    case 1: return 128;  // limited to one thread per token's scale
    case 2: return half ? 160 : 192;
    case 3: return half ? 160 : 128;
    default: return half ? 104 : 80;
  }
}
/// True if the loading warps give registers to the math warps. With small accumulators that is not needed.
SLUICE_HD constexpr bool moves_registers(const StripConfig& c) {
  return c.tokens > (math_groups(c) > 2 ? 64 : 128);
}
/// Threads per CTA: math warpgroups, then two loading warps. Registers are reallocated per warpgroup, so then
/// two idle warps complete theirs.
SLUICE_HD constexpr int threads_of(const StripConfig& c) {
  return 128 * math_groups(c) + (moves_registers(c) ? 128 : 64);
}
inline constexpr int kStripLoadRegisters = 24;
/// Registers of a math thread if registers are reallocated: an equal share of the CTA's registers at launch,
/// less those of the loaders. With a larger value setmaxnreg would wait forever.
SLUICE_HD constexpr int math_registers(const StripConfig& c) {
  const int all = most_registers(threads_of(c), 1) * (math_groups(c) + 1);
  return min(240, (all - kStripLoadRegisters) / math_groups(c) / 8 * 8);
}
/// Threads that have a role.
SLUICE_HD constexpr int busy_threads(const StripConfig& c) {
  return 128 * math_groups(c) + 64;
}
SLUICE_HD constexpr int tile_rows(const StripConfig& c) {
  return kStripRows * c.strips;
}
/// Columns of D that a CTA stores.
SLUICE_HD constexpr int tile_columns(const StripConfig& c) {
  return c.gated ? tile_rows(c) / 2 : tile_rows(c);
}
/// The strip of the blob that a CTA loads as its `strip`. `first`: the strip of its first column. Past the
/// end it is the last strip, whose sums are then not stored. `strips`: strips of the blob; if gated, half of
/// them are the gate's.
SLUICE_HD constexpr int strip_in_blob(const StripConfig& c, int strips, int first, int strip) {
  if (!c.gated) return min(first + strip, strips - 1);
  const int half = c.strips / 2, of_half = min(first + strip % half, strips / 2 - 1);
  return strip < half ? of_half : strips / 2 + of_half;
}

// Shared memory: [token ring | weight ring | sums from the cluster | vectors | barriers]. After the last
// product, the warpgroups' sums overlay the rings: fp32 [k group][token][row], with rows padded to avoid bank
// conflicts.
SLUICE_HD constexpr int x_stage_bytes(const StripConfig& c) {
  return c.tokens * kPackedTileK * bytes_of(c.x);
}
SLUICE_HD constexpr int w_stage_bytes(const StripConfig& c) {
  return c.strips * tile_bytes(c.weights);
}
SLUICE_HD constexpr int w_ring_offset(const StripConfig& c) {
  return c.stages * x_stage_bytes(c);
}
SLUICE_HD constexpr int sums_stride(const StripConfig& c) {
  return tile_rows(c) + 4;
}
SLUICE_HD constexpr int sums_bytes(const StripConfig& c) {
  return c.k_groups * c.tokens * sums_stride(c) * 4;
}
/// Offset of sums that arrive from the cluster. This memory has no other use, because they may arrive while
/// this CTA still multiplies.
SLUICE_HD constexpr int incoming_offset(const StripConfig& c) {
  return max(w_ring_offset(c) + c.stages * w_stage_bytes(c), sums_bytes(c));
}
/// Bytes of those sums: one slot per other CTA, in units of four sums.
SLUICE_HD constexpr int incoming_bytes(const StripConfig& c) {
  const int halves = tile_rows(c) / tile_columns(c);
  return (c.parts - 1) * 16 * halves * ceil_div(tile_columns(c) / 4 * c.tokens, c.parts);
}
SLUICE_HD constexpr int vector_offset(const StripConfig& c) {
  return incoming_offset(c) + incoming_bytes(c);
}
/// Offset of the barriers, which follow the fp32 vectors: biases of rows, scales of rows, scales of tokens.
SLUICE_HD constexpr int barrier_offset(const StripConfig& c) {
  return vector_offset(c) + 4 * (2 * tile_rows(c) + c.tokens);
}
/// Shared memory per CTA. The barriers come last: a full and an empty one per stage, 8 bytes each.
SLUICE_HD constexpr i64 smem_bytes(const StripConfig& c) {
  return barrier_offset(c) + 8 * 2 * c.stages;
}

/// The rule that the config breaks, as text; nullptr if it is valid.
SLUICE_HD constexpr const char* validate(const StripConfig& c) {
  if (validate(c.weights) != nullptr) return validate(c.weights);
  if (!is_16bit(c.x) && c.x != DType::e4m3) return "A must be fp16, bf16 or e4m3";
  if (is_16bit(c.x) && c.weights.order != FragmentOrder::half)
    return "a 16-bit A takes weights in the order half";
  if (c.x == DType::e4m3 && c.weights.order != FragmentOrder::byte)
    return "an 8-bit A takes weights in the order byte";
  if (!is_16bit(c.d) && c.d != DType::fp32 && c.d != DType::e4m3) return "D must be fp16, bf16, fp32 or e4m3";
  if (is_16bit(c.x) && c.d == DType::e4m3) return "an e4m3 D takes an e4m3 A";
  if (is_16bit(c.x) && c.scale_x != ScaleMode::none) return "only an e4m3 A has scales";
  if (c.scale_d != ScaleMode::none && c.scale_d != ScaleMode::tensor)
    return "scale_d must be none or tensor: one for all of D";
  if (c.scale_d != ScaleMode::none && c.d != DType::e4m3) return "scale_d is for an e4m3 D";
  if (scales_128_of_k(c.scale_x)) return "rows of A have one scale each, or one for all, or none";
  if (c.bias != Bias::none && !is_addend(c.bias_type)) return "bias must be bf16, fp16 or fp32";
  if (c.tokens < kTokenBlock || c.tokens % kTokenBlock != 0) return "tile_m must be a multiple of 8";
  if (c.strips < 1 || c.strips > 4) return "tile_n must be 64, 128, 192 or 256";
  if (c.gated && c.strips % 2 != 0)
    return "gated, tile_n must be 128 or 256: as many strips of the gate as of up";
  if (c.k_groups < 1 || c.k_groups > 4) return "k_groups must be in 1..4";
  if (math_groups(c) > kStripMostGroups) return "a CTA has room for 4 math warpgroups";
  if (c.tokens > most_strip_tokens(c.x, math_groups(c)))
    return "the sums of so many rows leave too few registers: take a smaller tile_m or fewer k_groups";
  if (c.parts < 1 || c.parts > 8) return "cluster_k must be in 1..8";
  if (c.stages < 2 || c.stages > 32) return "stages must be in 2..32";
  if (c.stages <= c.k_groups) return "stages must be more than k_groups: each waits for a tile and holds one";
  if (c.stages % c.k_groups != 0)
    return "stages must be a multiple of k_groups: who waits for a stage must have seen all its phases";
  if (smem_bytes(c) > kMaxSmemBytes) return "the rings need more than 227 KB of shared memory";
  return nullptr;
}

/// The launch parameters. With k = 0 the map and the weights are not used.
struct StripParams {
  TensorMap map_x;  // boxes of 128 bytes of k
  const void* weights;
  void* d;
  const void* bias;
  const float* scale_x;
  i64 strip_bytes;
  i64 ld_d;
  int m, n;  // n: columns of D
  int k_tiles, strips;
  int token_tiles;
  u32 x_bytes;   // bytes of a stage's tokens: less than a whole tile's if the problem has fewer tokens
  bool vectors;  // true if rows of D begin at multiples of 4 elements and n is one: four elements take one
                 // store
  WarmRange prefetch, hand_off;  // as in NarrowParams
  const float* scale_d;          // append new fields here (spec/packed.h)
};

}  // namespace sluice
