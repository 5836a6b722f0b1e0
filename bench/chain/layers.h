// SPDX-License-Identifier: Apache-2.0
// Transformer layers as chains: the four products of a layer and the steps between them, for known models.
// Attention is omitted: o reads the first columns of qkv's output. Needs no GPU; the caller passes memory, or
// imagined_memory() if it only makes plans. Used by chain/data.cc and `sluice chain`.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <sluice/chain.h>

#include "bench/chain/model.h"

namespace sluice::bench {

/// e4m3: tokens too, with one fixed scale. int4: groups of 128; tokens are bf16, or e4m3 with one fixed
/// scale.
enum class LayerWeights : u8 { e4m3, bf16, int4 };
/// projections: only the four products, each reading the output of the one before it.
enum class LayerParts : u8 { all, projections };
/// Work that is fused into products instead of separate norms and quantisers; each value includes the
/// previous one. gated: gate_up has a gate, and products that make e4m3 tokens write them. residual: o and
/// down add the residual stream (not to e4m3 tokens of int4 weights). norm: qkv and gate_up norm their input
/// (int4 with up to 8 bf16 tokens).
enum class Fusion : u8 { none, gated, residual, norm };

struct LayerSpec {
  Model model = known_models()[0];
  LayerWeights weights = LayerWeights::e4m3;
  LayerParts parts = LayerParts::all;
  Fusion fusion = Fusion::none;
  i64 tokens = 1;
  int layers = 8;                                // each with its own weights
  int passes = 4;                                // through the layers, in one chain
  DType tokens_of_int4 = DType::bf16;            // or e4m3; other weights fix the type
  Accumulate accumulate = Problem{}.accumulate;  // counts for e4m3 weights
};

/// Returns whether the last product writes the residual stream.
bool adds_residuals(const LayerSpec& spec);
/// Returns the reason why layers with such weights and tokens do not support `fusion` (text that follows its
/// name); nullptr if they do. The limit of 8 tokens for norms in products (spec/packed.h) is not checked
/// here.
const char* why_not_fused(const LayerSpec& spec, Fusion fusion);

enum class LayerProduct : u8 { qkv, o, gate_up, down };
inline constexpr size_t kLayerProducts = 4;
inline constexpr const char* kProductNames[] = {"qkv", "o", "gate_up", "down"};

/// The type that products read.
DType token_type(const LayerSpec& spec);

/// The layer's product, with the types of D and A, A's leading dimension, and scales.
Problem problem_of(const LayerSpec& spec, LayerProduct product);
PackedProblem packed_problem_of(const LayerSpec& spec, LayerProduct product);
/// The bytes of one layer's four products.
i64 weight_bytes(const LayerSpec& spec);

/// Activations of `tokens` rows each; layers share them in turn. Their bytes are 0 where the spec has none.
struct Activations {
  enum Buffer { kHidden, kNormed, kQkv, kAttention, kO, kGateUp, kGated, kDown, kCount };
  std::array<void*, kCount> data{};
};
std::array<i64, Activations::kCount> activation_bytes(const LayerSpec& spec);
i64 input_bytes(const LayerSpec& spec);
/// The fill of activations before a comparison: NaN. Where products read columns that none writes, a number
/// in each type.
u8 poison_of(const LayerSpec& spec);

struct LayerMemory {
  const void* input = nullptr;  // tokens x width
  Activations activations;
  const void* gamma = nullptr;
  const float* one = nullptr;  // the fixed scale
  /// For each layer and product: B, scales and alpha; or the blob.
  std::vector<std::array<gemm::Args, kLayerProducts>> products;
  std::vector<std::array<const void*, kLayerProducts>> blobs;
};

/// Returns distinct fake addresses, spaced like real buffers, for making plans without memory.
LayerMemory imagined_memory(const LayerSpec& spec);

/// The steps of layers * passes layers.
std::vector<ChainStep> steps_of(const LayerSpec& spec, const LayerMemory& memory);

Result<LayerWeights> parse_layer_weights(const std::string& name);
/// "": the weights' default. Errors: neither bf16 nor e4m3; given for weights that fix it.
Result<DType> parse_layer_tokens(const std::string& name, LayerWeights weights);
/// "": the default of a Problem. Errors: neither promoted nor fast; given for weights other than e4m3.
Result<Accumulate> parse_layer_sums(const std::string& name, LayerWeights weights);
Result<Fusion> parse_fusion(const std::string& name);
const char* name_of(Fusion fusion);
const char* name_of(LayerWeights weights);
LayerSpec fused(LayerSpec spec, Fusion fusion);
/// "llama3-8b e4m3 promoted, 16 tokens, projections"; fast sums, as in older results, are not named.
std::string name_of(const LayerSpec& spec);

}  // namespace sluice::bench
