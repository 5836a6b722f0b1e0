// SPDX-License-Identifier: Apache-2.0
// Transformer layers as chains: the four products of a layer and the steps between them, for known models.
// Attention is omitted: o reads the first columns of qkv's output. Needs no GPU; the caller passes memory, or
// imagined_memory() if it only makes plans. Used by chain/data.cc and `sluice chain`.
#pragma once

#include <array>
#include <vector>

#include <sluice/bench/chain.h>

namespace sluice::bench {

/// True if the last product writes the residual stream.
bool adds_residuals(const LayerSpec& spec);
enum class LayerProduct : u8 { qkv, o, gate_up, down };
inline constexpr size_t kLayerProducts = 4;
inline constexpr const char* kProductNames[] = {"qkv", "o", "gate_up", "down"};

/// The input type of the products.
DType token_type(const LayerSpec& spec);

/// The problem of one product of the layer. The types of A and D, A's leading dimension and the scales are
/// set.
Problem problem_of(const LayerSpec& spec, LayerProduct product);
Problem packed_problem_of(const LayerSpec& spec, LayerProduct product);
/// Bytes of the weights of one layer's four products.
i64 weight_bytes(const LayerSpec& spec);

/// Buffers of activations, `tokens` rows each. All layers use the same buffers. A buffer that the spec does
/// not need has 0 bytes.
struct Activations {
  enum Buffer { kHidden, kNormed, kQkv, kAttention, kO, kGateUp, kGated, kDown, kCount };
  std::array<void*, kCount> data{};
};
std::array<i64, Activations::kCount> activation_bytes(const LayerSpec& spec);
i64 input_bytes(const LayerSpec& spec);
/// Byte that fills the activations before a comparison. It makes them NaN. If products read columns that no
/// kernel writes, it makes them a finite number in every type.
u8 poison_of(const LayerSpec& spec);

struct LayerMemory {
  const void* input = nullptr;  // tokens x width
  Activations activations;
  const void* gamma = nullptr;
  const float* one = nullptr;  // the fixed scale, 1
  /// Operands by layer and product. Dense: B, scales and alpha. Packed: the blob.
  std::vector<std::array<gemm::Args, kLayerProducts>> products;
  std::vector<std::array<const void*, kLayerProducts>> blobs;
};

/// Returns distinct fake addresses, spaced like real buffers, for making plans without memory.
LayerMemory imagined_memory(const LayerSpec& spec);

/// Returns the chain's steps: layers * passes layers.
std::vector<ChainStep> steps_of(const LayerSpec& spec, const LayerMemory& memory);

LayerSpec fused(LayerSpec spec, Fusion fusion);

}  // namespace sluice::bench
