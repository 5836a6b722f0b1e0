// SPDX-License-Identifier: Apache-2.0
// Packed weights for many tokens: the config of kernels/wide.cuh, derived values, and its launch parameters.
// The problem is that of spec/packed.h. A CTA multiplies two strips (128 outputs) by `tokens` tokens. Weights
// are WGMMA's A, in registers; tokens are its B, in shared memory.
#pragma once

#include <sluice/spec/packed.h>
#include <sluice/spec/params.h>

namespace sluice {

/// The config of the wide kernel; one config is one cubin.
struct WideConfig {
  WeightFormat weights{};
  DType x = DType::fp16;
  DType d = DType::fp16;
  Bias bias = Bias::none;
  DType bias_type = DType::fp16;
  Activation activation = Activation::none;
  int tokens = 128;    // per tile: any multiple of 8, at most 256
  int cluster_n = 1;   // CTAs with the same tokens, each of which loads a part for both: 1 or 2
  int cluster_k = 1;   // CTAs with the same tile, which divide k: 1 or 2
  int x_stages = 8;    // each of 64 k
  int w_stages = 4;    // each of 128 k
  int tail_parts = 1;  // units per tile of the last wave, which is split by tokens: 1 or 2
  Overlap overlap{};

  constexpr bool operator==(const WideConfig&) const = default;
};

inline constexpr int kWideGroups = 2;  // math warpgroups, with a strip each
inline constexpr int kWideRows = kWideGroups * kStripRows;
inline constexpr int kWideThreads = 128 * (kWideGroups + 1);
inline constexpr int kWideLoadRegisters = 40;
inline constexpr int kWideMathRegisters = 232;
inline constexpr int kWideStageK = 64;  // k per token stage: a row of 128 bytes
inline constexpr int kWideMostTokens = 256;
inline constexpr int kWideStoreTokens = 32;  // tokens per store buffer; a warpgroup has two buffers
inline constexpr int kWideStoreBuffers = 2;
static_assert(128 * (kWideLoadRegisters + kWideGroups * kWideMathRegisters) <= 1 << 16);

SLUICE_HD constexpr int cluster_size(const WideConfig& c) {
  return c.cluster_n * c.cluster_k;
}
/// Tokens of a tile whose sums one CTA finishes and stores.
SLUICE_HD constexpr int own_tokens(const WideConfig& c) {
  return c.tokens / c.cluster_k;
}
/// True if each CTA has one tile and the grid covers all of them, as when k is divided; otherwise a CTA
/// processes several tiles.
SLUICE_HD constexpr bool takes_one_tile(const WideConfig& c) {
  return c.cluster_k > 1;
}
/// Tokens per part of a tile, if the tiles of the last wave are split (whole_units()); else of a whole tile.
SLUICE_HD constexpr int tail_tokens(const WideConfig& c) {
  return c.tokens / c.tail_parts;
}
/// Tokens per copy from a store buffer to D: the most that divide all tiles and units. A fuller buffer takes
/// several copies.
SLUICE_HD constexpr int store_tokens(const WideConfig& c) {
  int tokens = kWideStoreTokens;
  while (min(own_tokens(c), tail_tokens(c)) % tokens != 0) tokens /= 2;
  return tokens;
}
/// Number of tiles, out of `tiles` in waves of `clusters`, that are not split. The tiles of the last wave are
/// split if their parts fit in one wave too; each cluster then has at most one part, as its last unit.
SLUICE_HD constexpr int whole_units(const WideConfig& c, int tiles, int clusters) {
  if (c.tail_parts == 1 || clusters < 1) return tiles;
  const int rest = tiles % clusters;
  return rest <= clusters / c.tail_parts ? tiles - rest : tiles;
}
/// Units of work: whole tiles and parts.
SLUICE_HD constexpr int unit_count(const WideConfig& c, int tiles, int whole) {
  return tiles + (c.tail_parts - 1) * (tiles - whole);
}
/// True if both rings advance together and begin with the tile, so that stages are known at compile time.
/// With 256 tokens the loop is not limited by instruction issue, and unrolled it may spill.
SLUICE_HD constexpr bool has_fixed_ring(const WideConfig& c) {
  return takes_one_tile(c) && c.x_stages == 2 * c.w_stages && c.tokens <= 128;
}

// Shared memory: [token ring | store buffers | weight ring | sums from the peer | barriers].
SLUICE_HD constexpr int x_stage_bytes(const WideConfig& c) {
  return c.tokens * kWideStageK * 2;
}
SLUICE_HD constexpr int w_stage_bytes(const WideConfig& c) {
  return kWideGroups * tile_bytes(c.weights);
}
SLUICE_HD constexpr int store_buffer_bytes(const WideConfig&) {
  return kWideStoreTokens * kStripRows * 2;
}
SLUICE_HD constexpr int store_offset(const WideConfig& c) {
  return c.x_stages * x_stage_bytes(c);
}
/// Bytes of the store buffers; fp32 is stored from registers.
SLUICE_HD constexpr int store_bytes(const WideConfig& c) {
  return is_16bit(c.d) ? kWideGroups * kWideStoreBuffers * store_buffer_bytes(c) : 0;
}
SLUICE_HD constexpr int w_ring_offset(const WideConfig& c) {
  return store_offset(c) + store_bytes(c);
}
/// Offset of the peer's sums. This memory has no other use, because the peer may send while this CTA still
/// multiplies.
SLUICE_HD constexpr int exchange_offset(const WideConfig& c) {
  return w_ring_offset(c) + c.w_stages * w_stage_bytes(c);
}
SLUICE_HD constexpr int exchange_bytes(const WideConfig& c) {
  return c.cluster_k > 1 ? kWideRows * own_tokens(c) * 4 : 0;
}
SLUICE_HD constexpr int barrier_offset(const WideConfig& c) {
  return exchange_offset(c) + exchange_bytes(c);
}
/// Shared memory per CTA. The barriers come last: full and empty ones of both rings, 8 bytes each.
SLUICE_HD constexpr i64 smem_bytes(const WideConfig& c) {
  return barrier_offset(c) + 8 * 2 * (c.x_stages + c.w_stages);
}

/// The rule that the config breaks, as text; nullptr if it is valid.
SLUICE_HD constexpr const char* validate(const WideConfig& c) {
  if (validate(c.weights) != nullptr) return validate(c.weights);
  if (c.weights.order != FragmentOrder::half) return "16-bit tokens take weights in the order half";
  if (!is_16bit(c.x)) return "tokens must be fp16 or bf16";
  if (!is_16bit(c.d) && c.d != DType::fp32) return "D must be fp16, bf16 or fp32";
  if (c.bias != Bias::none && is_fp8(c.bias_type)) return "bias must be bf16, fp16 or fp32";
  if (c.tokens < kTokenBlock || c.tokens > kWideMostTokens || c.tokens % kTokenBlock != 0)
    return "tokens must be a multiple of 8 in 8..256";
  if (c.cluster_n != 1 && c.cluster_n != 2) return "cluster_n must be 1 or 2";
  if (c.cluster_k != 1 && c.cluster_k != 2) return "cluster_k must be 1 or 2";
  if (cluster_size(c) > 2) return "cluster_n and cluster_k must not both be 2: four CTAs seldom find room";
  if (c.tail_parts != 1 && c.tail_parts != 2) return "tail_parts must be 1 or 2";
  if (c.tail_parts > 1 && takes_one_tile(c)) return "tail_parts = 2 takes cluster_k = 1";
  if (c.tokens % (kTokenBlock * cluster_size(c) * c.tail_parts) != 0)
    return "tokens must be a multiple of 8 for each CTA of the cluster and each of tail_parts";
  if (c.x_stages < 2 || c.x_stages > 16) return "x_stages must be in 2..16";
  if (c.w_stages < 1 || c.w_stages > 16) return "w_stages must be in 1..16";
  if (smem_bytes(c) > kMaxSmemBytes) return "the rings need more than 227 KB of shared memory";
  return nullptr;
}

/// The launch parameters.
struct WideParams {
  TensorMap map_x;
  TensorMap map_d;  // unused unless `stores_boxes`
  const void* weights;
  void* d;
  const void* bias;
  i64 strip_bytes;
  i64 ld_d;
  int m, n;
  int k_tiles, strips;
  int token_tiles, row_tiles;    // a row tile is the rows of cluster_n CTAs
  int whole_units;               // tiles that are not split
  int band;                      // token tiles that are processed together along the rows
  u32 x_bytes;                   // bytes of a token stage: fewer if a tile has fewer tokens
  bool stores_boxes;             // true if the copy engine can store to D
  WarmRange prefetch, hand_off;  // as in NarrowParams
};

}  // namespace sluice
