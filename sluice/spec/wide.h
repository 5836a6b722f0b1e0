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
  int tokens = 128;   // per tile: any multiple of 8, at most 256
  int cluster_n = 1;  // CTAs with the same tokens, each of which loads a part for both: 1 or 2
  int x_stages = 8;   // each of 64 k
  int w_stages = 4;   // each of 128 k
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
  return c.cluster_n;
}
/// Tokens per copy from a store buffer to D: the most that divide all tiles. A fuller buffer takes several
/// copies.
SLUICE_HD constexpr int store_tokens(const WideConfig& c) {
  int tokens = kWideStoreTokens;
  while (c.tokens % tokens != 0) tokens /= 2;
  return tokens;
}

// Shared memory: [token ring | store buffers | weight ring | barriers].
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
SLUICE_HD constexpr int barrier_offset(const WideConfig& c) {
  return w_ring_offset(c) + c.w_stages * w_stage_bytes(c);
}
/// Shared memory per CTA. The barriers come last: full and empty ones of both rings, 8 bytes each.
SLUICE_HD constexpr i64 smem_bytes(const WideConfig& c) {
  return barrier_offset(c) + 8 * 2 * (c.x_stages + c.w_stages);
}

/// The rule that the config breaks, as text; nullptr if it is valid.
SLUICE_HD constexpr const char* validate(const WideConfig& c) {
  if (validate(c.weights) != nullptr) return validate(c.weights);
  if (c.weights.order != FragmentOrder::half) return "a 16-bit A takes weights in the order half";
  if (!is_16bit(c.x)) return "A must be fp16 or bf16";
  if (!is_16bit(c.d) && c.d != DType::fp32) return "D must be fp16, bf16 or fp32";
  if (c.bias != Bias::none && !is_addend(c.bias_type)) return "bias must be bf16, fp16 or fp32";
  if (c.tokens < kTokenBlock || c.tokens > kWideMostTokens || c.tokens % kTokenBlock != 0)
    return "tile_m must be a multiple of 8 in 8..256";
  if (c.cluster_n != 1 && c.cluster_n != 2) return "cluster_n must be 1 or 2";
  if (c.tokens % (kTokenBlock * cluster_size(c)) != 0)
    return "tile_m must be a multiple of 8 for each CTA of the cluster";
  if (c.x_stages < 2 || c.x_stages > 16) return "stages must be in 2..16";
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
  int band;                      // token tiles that are processed together along the rows
  u32 x_bytes;                   // bytes of a token stage: fewer if a tile has fewer tokens
  bool stores_boxes;             // true if the copy engine can store to D
  WarmRange prefetch, hand_off;  // as in NarrowParams
};

}  // namespace sluice
