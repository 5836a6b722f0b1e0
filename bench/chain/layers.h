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

/// Type of the weights. With e4m3 weights the tokens are e4m3 too, with one fixed scale. With int4 weights
/// (scale groups of 128) the tokens are bf16, or e4m3 with one fixed scale.
enum class LayerWeights : u8 { e4m3, bf16, int4 };
/// all: the layer's norms and quantisers too. projections: only the four products, each reading the output of
/// the previous one.
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
  int layers = 8;                                // each layer has its own weights
  int passes = 4;                                // times that the chain runs through the layers
  DType tokens_of_int4 = DType::bf16;            // bf16 or e4m3; with other weights the token type is fixed
  Accumulate accumulate = Problem{}.accumulate;  // used for e4m3 weights only
};

/// True if the last product writes the residual stream.
bool adds_residuals(const LayerSpec& spec);
/// Returns the reason why layers with such weights and tokens do not support `fusion` (text that follows its
/// name); nullptr if they do. The limit of 8 tokens for norms in products (spec/packed.h) is not checked
/// here.
const char* why_not_fused(const LayerSpec& spec, Fusion fusion);

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

Result<LayerWeights> parse_layer_weights(const std::string& name);
/// Parses the token type; "" means the weights' default. Errors: `name` is neither bf16 nor e4m3, or the
/// weights allow only one type.
Result<DType> parse_layer_tokens(const std::string& name, LayerWeights weights);
/// Parses the accumulation mode; "" means the default of Problem. Errors: `name` is neither promoted nor
/// fast, or the weights are not e4m3.
Result<Accumulate> parse_layer_sums(const std::string& name, LayerWeights weights);
Result<Fusion> parse_fusion(const std::string& name);
const char* name_of(Fusion fusion);
const char* name_of(LayerWeights weights);
LayerSpec fused(LayerSpec spec, Fusion fusion);
/// Returns for example "llama3-8b e4m3 promoted, 16 tokens, projections". Fast accumulation is not named, as
/// in older results files.
std::string name_of(const LayerSpec& spec);

}  // namespace sluice::bench
