// SPDX-License-Identifier: Apache-2.0
// Transformer layers as chains: the four products of a layer and what stands between them, for the sizes of
// known models. Attention is left out: o reads the head of qkv's output. Pure; memory is given, or imagined
// where only plans are wanted. Used by chain/data.cc and `sluice chain`.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <sluice/chain.h>

namespace sluice::bench {

struct Model {
  const char* name;
  i64 width, qkv, attention, inner;  // attention: what o reads; inner: what down reads, half of gate_up
  /// Not 0: no model, but four equal products of n x k, each of which reads k columns whose first n the one
  /// before it wrote; width is k. Projections alone.
  i64 n = 0;
};
/// 70B: one of eight tensor-parallel shards.
inline constexpr Model kModels[] = {{"llama3-8b", 4096, 6144, 4096, 14336},
                                    {"llama3-70b-tp8", 8192, 1280, 1024, 3584},
                                    {"qwen3-8b", 4096, 6144, 4096, 12288}};

/// e4m3: tokens too, with one given scale. int4: groups of 128, with bf16 tokens or, with one given scale,
/// e4m3.
enum class LayerWeights : u8 { e4m3, bf16, int4 };
/// projections: the four products alone, each reading what the one before it wrote.
enum class LayerParts : u8 { all, projections };
/// What products do in place of companions (layers with all parts). gated: gate_up is gated and e4m3 tokens
/// leave the products that make them. residual: o and down add the residual stream besides (not to e4m3
/// tokens of int4 weights). norm: qkv and gate_up norm what they read, besides (int4 with up to 8 bf16
/// tokens).
enum class Fusion : u8 { none, gated, residual, norm };

struct LayerSpec {
  Model model = kModels[0];
  LayerWeights weights = LayerWeights::e4m3;
  LayerParts parts = LayerParts::all;
  Fusion fusion = Fusion::none;
  i64 tokens = 1;
  int layers = 8;                      // with weights of their own
  int passes = 4;                      // through them, in one chain
  DType tokens_of_int4 = DType::bf16;  // or e4m3; of other weights they are the weights' type
};

/// What the last product leaves is the residual stream.
bool adds_residuals(const LayerSpec& spec);
/// nullptr, or why no layer of such weights and tokens has it, in words behind its name. Norms in products
/// take up to 8 tokens (spec/packed.h), whatever this says.
const char* why_not_fused(const LayerSpec& spec, Fusion fusion);

enum class LayerProduct : u8 { qkv, o, gate_up, down };
inline constexpr size_t kLayerProducts = 4;
inline constexpr const char* kProductNames[] = {"qkv", "o", "gate_up", "down"};

/// Of what products read.
DType token_type(const LayerSpec& spec);

/// Of D and A, with A's leading dimension, types and scales: what the layer's product is.
Problem problem_of(const LayerSpec& spec, LayerProduct product);
PackedProblem packed_problem_of(const LayerSpec& spec, LayerProduct product);
/// Of one layer's four products.
i64 weight_bytes(const LayerSpec& spec);

/// Activations, each `tokens` rows; layers use the same ones in turn. Their bytes are 0 where the spec has
/// none.
struct Activations {
  enum Buffer { kHidden, kNormed, kQkv, kAttention, kO, kGateUp, kGated, kDown, kCount };
  std::array<void*, kCount> data{};
};
std::array<i64, Activations::kCount> activation_bytes(const LayerSpec& spec);
i64 input_bytes(const LayerSpec& spec);
/// What activations are filled with before a comparison: NaN; or, where products read columns that none
/// writes, something that is a number in every type.
u8 poison_of(const LayerSpec& spec);

struct LayerMemory {
  const void* input = nullptr;  // tokens x width
  Activations activations;
  const void* gamma = nullptr;
  const float* one = nullptr;  // the given scale
  /// Of each layer and product: B, scales and alpha; or the blob.
  std::vector<std::array<gemm::Args, kLayerProducts>> products;
  std::vector<std::array<const void*, kLayerProducts>> blobs;
};

/// Addresses that are nobody's memory, each with room for what it stands for: for plans, which read none.
LayerMemory imagined_memory(const LayerSpec& spec);

/// layers * passes layers.
std::vector<ChainStep> steps_of(const LayerSpec& spec, const LayerMemory& memory);

/// A name of kModels, or "1280x8192": n x k of four equal products, n at most k.
Result<Model> parse_model(const std::string& name);
Result<LayerWeights> parse_layer_weights(const std::string& name);
/// "": as the weights have it. Errors: not bf16 or e4m3; given where weights say it themselves.
Result<DType> parse_layer_tokens(const std::string& name, LayerWeights weights);
Result<Fusion> parse_fusion(const std::string& name);
const char* name_of(Fusion fusion);
const char* name_of(LayerWeights weights);
LayerSpec fused(LayerSpec spec, Fusion fusion);
/// "llama3-8b e4m3 16 tokens", "... projections"
std::string name_of(const LayerSpec& spec);

}  // namespace sluice::bench
