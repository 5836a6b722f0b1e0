// SPDX-License-Identifier: Apache-2.0
#include "bench/chain/layers.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include <sluice/bench/parse.h>
#include <sluice/chain.h>
#include <sluice/messages/errors.h>

namespace sluice::bench {
namespace {

bool has_fp8_tokens(const LayerSpec& spec) {
  return is_fp8(token_type(spec));
}
bool has_companions(const LayerSpec& spec) {
  return spec.parts == LayerParts::all;
}
bool is_fused(const LayerSpec& spec) {
  return has_companions(spec) && spec.fusion != Fusion::none;
}
bool norms_in_products(const LayerSpec& spec) {
  return has_companions(spec) && spec.fusion == Fusion::norm;
}
bool has_norms(const LayerSpec& spec) {
  return has_companions(spec) && !norms_in_products(spec);
}
bool reads_stream(LayerProduct product) {
  return product == LayerProduct::qkv || product == LayerProduct::gate_up;
}
/// True if a separate quantiser kernel writes attention's output as e4m3 tokens.
bool has_quantisers(const LayerSpec& spec) {
  return has_companions(spec) && has_fp8_tokens(spec) && !is_fused(spec);
}
/// The type of the residual stream and of the inputs of norms and quantisers.
DType stream_type(const LayerSpec& spec) {
  return has_companions(spec) ? DType::bf16 : token_type(spec);
}
/// The type of a product's D, which is the input type of the kernel that reads it.
DType output_type(const LayerSpec& spec, LayerProduct product) {
  return is_fused(spec) && reads_stream(product) ? token_type(spec) : stream_type(spec);
}

struct Sizes {
  i64 n, k, lda;
};
Sizes sizes_of(const LayerSpec& spec, LayerProduct product) {
  const Model& m = spec.model;
  if (m.n > 0) return {m.n, m.width, m.width};
  // Outputs of quantisers and of gates have buffers of their own. Other inputs are the first columns of a
  // wider buffer.
  const bool own = has_quantisers(spec), gated = has_companions(spec);
  switch (product) {
    case LayerProduct::qkv: return {m.qkv, m.width, m.width};
    case LayerProduct::o: return {m.width, m.attention, own ? m.attention : m.qkv};
    case LayerProduct::gate_up: return {2 * m.inner, m.width, m.width};
    case LayerProduct::down: return {m.width, m.inner, gated ? m.inner : 2 * m.inner};
  }
  return {};
}

/// Appends the steps of one layer after another.
class Layers {
 public:
  Layers(const LayerSpec& spec, const LayerMemory& memory) : spec_(spec), memory_(memory) {}

  void add_layer(int index) {
    const void* from = index == 0 ? memory_.input : at(Activations::kDown);
    stream_ = from;
    if (has_norms(spec_)) from = add_norm("norm1", from, index == 0);
    add_product(index, LayerProduct::qkv, from, Activations::kQkv);
    from = at(Activations::kQkv);
    if (has_quantisers(spec_))
      from = add_quantiser("quantise attention", Gate::none, from, Activations::kAttention);
    add_product(index, LayerProduct::o, from, Activations::kO);
    stream_ = from = at(Activations::kO);
    if (has_norms(spec_)) from = add_norm("norm2", from, false);
    const auto gate_up = is_fused(spec_) ? Activations::kGated : Activations::kGateUp;
    add_product(index, LayerProduct::gate_up, from, gate_up);
    from = at(gate_up);
    if (has_companions(spec_) && !is_fused(spec_))
      from = add_quantiser("silu", Gate::silu, from, Activations::kGated);
    add_product(index, LayerProduct::down, from, Activations::kDown);
  }
  std::vector<ChainStep> take() { return std::move(steps_); }

 private:
  void* at(Activations::Buffer buffer) const { return memory_.activations.data[buffer]; }

  /// Appends a norm. The first norm of a chain also initialises the residual stream, so that each replay
  /// starts from the same values.
  const void* add_norm(const char* name, const void* from, bool first) {
    NormStep step{.options = {.input = DType::bf16},
                  .shape = {.rows = spec_.tokens, .columns = spec_.model.width},
                  .args = {.input = from,
                           .residual = first || adds_residuals(spec_) ? nullptr : at(Activations::kHidden),
                           .sum = adds_residuals(spec_) ? nullptr : at(Activations::kHidden),
                           .gamma = memory_.gamma,
                           .output = at(Activations::kNormed)}};
    if (has_fp8_tokens(spec_)) {
      step.options.quantize = Granularity::tensor;
      // A caller's scales, which the quantiser only reads.
      step.args.scales = const_cast<float*>(memory_.one);
    }
    steps_.push_back({.work = step, .name = name});
    return at(Activations::kNormed);
  }

  const void* add_quantiser(const char* name, Gate gate, const void* from, Activations::Buffer to) {
    const Model& m = spec_.model;
    const bool gated = gate == Gate::silu;
    QuantizerStep step{
        .gate = gate,
        .shape = {.rows = spec_.tokens,
                  .columns = gated ? m.inner : m.attention,
                  .input_ld = gated ? 2 * m.inner : m.qkv},
        .args = {
            .input = from, .output = at(to), .scales = const_cast<float*>(memory_.one), .scale_given = true}};
    if (!has_fp8_tokens(spec_)) {
      step.granularity.reset();
      step.args.scales = nullptr;
      step.args.scale_given = false;
    }
    steps_.push_back({.work = step, .name = name});
    return at(to);
  }

  void add_product(int index, LayerProduct product, const void* from, Activations::Buffer to) {
    const auto layer = static_cast<size_t>(index % spec_.layers), which = static_cast<size_t>(product);
    ChainStep made{.name = kProductNames[which]};
    const bool packed = spec_.weights == LayerWeights::int4;
    ProductStep step{.problem = packed ? packed_problem_of(spec_, product) : problem_of(spec_, product)};
    const Problem& p = step.problem;
    if (packed) {
      step.args.b = memory_.blobs[layer][which];
      if (p.epilogue.scale_a != ScaleMode::none) step.args.scale_a = memory_.one;
      if (p.norm_a) step.args.gamma = memory_.gamma;
    } else {
      step.args = memory_.products[layer][which];
    }
    step.args.a = from;
    step.args.d = at(to);
    if (p.epilogue.residual) {
      step.args.c = stream_;
      step.args.beta = 1.0f;
    }
    if (p.epilogue.scale_d != ScaleMode::none) step.args.scale_d = memory_.one;
    made.work = step;
    steps_.push_back(std::move(made));
  }

  const LayerSpec& spec_;
  const LayerMemory& memory_;
  const void* stream_ = nullptr;  // the residual stream; null if no product adds to it
  std::vector<ChainStep> steps_;
};

}  // namespace

bool adds_residuals(const LayerSpec& spec) {
  return norms_in_products(spec) || (has_companions(spec) && spec.fusion == Fusion::residual);
}

const char* why_not_fused(const LayerSpec& spec, Fusion fusion) {
  const bool packed = spec.weights == LayerWeights::int4, few_bits = packed && has_fp8_tokens(spec);
  if (fusion == Fusion::none) return nullptr;
  if (!has_companions(spec))
    return "is for layers with companions: between products alone there is nothing to fuse";
  if (fusion == Fusion::residual && few_bits)
    return "is not for e4m3 tokens of packed weights, whose products add no residual; say gated";
  if (fusion == Fusion::norm && (!packed || few_bits))
    return "is for packed weights and bf16 tokens (--weights int4), whose products norm what they read; say "
           "gated";
  return nullptr;
}

DType token_type(const LayerSpec& spec) {
  switch (spec.weights) {
    case LayerWeights::e4m3: return DType::e4m3;
    case LayerWeights::bf16: return DType::bf16;
    case LayerWeights::int4: return spec.tokens_of_int4;
  }
  return DType::bf16;
}

Problem problem_of(const LayerSpec& spec, LayerProduct product) {
  const Sizes sizes = sizes_of(spec, product);
  Problem p{.m = spec.tokens, .n = sizes.n, .k = sizes.k};
  p.a = {.type = token_type(spec), .ld = sizes.lda};
  p.b.type = token_type(spec);
  p.accumulate = spec.accumulate;
  p.d.type = output_type(spec, product);
  p.d.ld = spec.model.n > 0 ? spec.model.width : 0;
  if (has_fp8_tokens(spec)) p.epilogue.scale_a = p.epilogue.scale_b = ScaleMode::tensor;
  if (is_fused(spec) && is_fp8(p.d.type)) p.epilogue.scale_d = ScaleMode::tensor;
  if (is_fused(spec) && product == LayerProduct::gate_up) {
    p.epilogue.gated = true;
    p.epilogue.activation = Activation::silu;
  }
  p.epilogue.residual = adds_residuals(spec) && !reads_stream(product);
  return p;
}

Problem packed_problem_of(const LayerSpec& spec, LayerProduct product) {
  const Sizes sizes = sizes_of(spec, product);
  const bool gated = is_fused(spec) && product == LayerProduct::gate_up, bytes = has_fp8_tokens(spec);
  Problem p = packed_problem(spec.tokens, sizes.n, sizes.k, token_type(spec), output_type(spec, product),
                             {.type = WeightType::uint4,
                              .group = 128,
                              .scale = DType::bf16,
                              .order = bytes ? FragmentOrder::byte : FragmentOrder::half});
  p.a.ld = sizes.lda;
  p.d.ld = spec.model.n > 0 ? spec.model.width : 0;
  if (bytes) p.epilogue.scale_a = ScaleMode::tensor;
  if (is_fused(spec) && is_fp8(p.d.type)) p.epilogue.scale_d = ScaleMode::tensor;
  p.epilogue.gated = gated;
  if (gated) p.epilogue.activation = Activation::silu;
  p.norm_a = norms_in_products(spec) && reads_stream(product);
  if (adds_residuals(spec) && !reads_stream(product)) add_residual(p);
  return p;
}

i64 weight_bytes(const LayerSpec& spec) {
  i64 bytes = 0;
  for (size_t i = 0; i < kLayerProducts; ++i) {
    const Sizes sizes = sizes_of(spec, static_cast<LayerProduct>(i));
    bytes += spec.weights == LayerWeights::int4
                 ? blob_bytes(packed_problem_of(spec, static_cast<LayerProduct>(i)))
                 : sizes.n * sizes.k * bytes_of(token_type(spec));
  }
  return bytes;
}

std::array<i64, Activations::kCount> activation_bytes(const LayerSpec& spec) {
  const Model& m = spec.model;
  const i64 token = bytes_of(token_type(spec)), output = bytes_of(stream_type(spec));
  // Sizes do not depend on the fusion, because variants with different fusions share the buffers.
  const bool all = has_companions(spec), quantised = all && has_fp8_tokens(spec);
  std::array<i64, Activations::kCount> bytes{};
  if (m.n > 0) {
    for (const auto buffer : {Activations::kQkv, Activations::kO, Activations::kGateUp, Activations::kDown})
      bytes[buffer] = spec.tokens * m.width * output;
    return bytes;
  }
  bytes[Activations::kHidden] = all ? m.width * output : 0;
  bytes[Activations::kNormed] = all ? m.width * token : 0;
  bytes[Activations::kQkv] = m.qkv * output;
  bytes[Activations::kAttention] = quantised ? m.attention * token : 0;
  bytes[Activations::kO] = m.width * output;
  bytes[Activations::kGateUp] = 2 * m.inner * output;
  bytes[Activations::kGated] = all ? m.inner * token : 0;
  bytes[Activations::kDown] = m.width * output;
  for (i64& each : bytes) each *= spec.tokens;
  return bytes;
}

i64 input_bytes(const LayerSpec& spec) {
  return spec.tokens * spec.model.width * bytes_of(stream_type(spec));
}

u8 poison_of(const LayerSpec& spec) {
  constexpr u8 kOneOfE4m3 = 0x38;
  return spec.model.n > 0 && spec.model.n < spec.model.width ? kOneOfE4m3 : 0xFF;
}

LayerMemory imagined_memory(const LayerSpec& spec) {
  u64 next = 1 << 20;
  const auto take = [&](i64 bytes) {
    void* address = reinterpret_cast<void*>(next);
    next += static_cast<u64>(round_up(bytes, i64{1024}));
    return address;
  };
  LayerMemory memory{.input = take(input_bytes(spec))};
  const auto bytes = activation_bytes(spec);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] > 0) memory.activations.data[i] = take(bytes[i]);
  memory.gamma = take(spec.model.width * bytes_of(DType::bf16));
  memory.one = static_cast<const float*>(take(sizeof(float)));
  memory.products.resize(static_cast<size_t>(spec.layers));
  memory.blobs.resize(static_cast<size_t>(spec.layers));
  for (size_t layer = 0; layer < memory.products.size(); ++layer)
    for (size_t which = 0; which < kLayerProducts; ++which)
      memory.blobs[layer][which] = memory.products[layer][which].b = take(weight_bytes(spec));
  return memory;
}

std::vector<ChainStep> steps_of(const LayerSpec& spec, const LayerMemory& memory) {
  Layers layers(spec, memory);
  for (int i = 0; i < spec.layers * spec.passes; ++i) layers.add_layer(i);
  return layers.take();
}

Result<LayerWeights> parse_layer_weights(const std::string& name) {
  return parse_name("--weights", name, {LayerWeights::e4m3, LayerWeights::bf16, LayerWeights::int4});
}

Result<DType> parse_layer_tokens(const std::string& name, LayerWeights weights) {
  if (name.empty()) return LayerSpec{}.tokens_of_int4;
  if (weights != LayerWeights::int4)
    return bad_argument("--activations is for --weights int4: tokens of {} weights are {} too; leave it out",
                        name_of(weights), name_of(weights));
  return parse_name("--activations", name, {DType::bf16, DType::e4m3});
}

Result<Accumulate> parse_layer_sums(const std::string& name, LayerWeights weights) {
  if (name.empty()) return LayerSpec{}.accumulate;
  if (weights != LayerWeights::e4m3)
    return bad_argument("--accumulate is for --weights e4m3: sums of {} products are in fp32; leave it out",
                        name_of(weights));
  return parse_name<Accumulate>("--accumulate", name);
}

Result<Fusion> parse_fusion(const std::string& name) {
  return parse_name("--fuse", name, {Fusion::none, Fusion::gated, Fusion::residual, Fusion::norm});
}

const char* name_of(Fusion fusion) {
  switch (fusion) {
    case Fusion::none: return "none";
    case Fusion::gated: return "gated";
    case Fusion::residual: return "residual";
    case Fusion::norm: return "norm";
  }
  return "?";
}

const char* name_of(LayerWeights weights) {
  switch (weights) {
    case LayerWeights::e4m3: return "e4m3";
    case LayerWeights::bf16: return "bf16";
    case LayerWeights::int4: return "int4";
  }
  return "?";
}

LayerSpec fused(LayerSpec spec, Fusion fusion) {
  spec.fusion = fusion;
  return spec;
}

std::string name_of(const LayerSpec& spec) {
  const std::string model =
      spec.model.n > 0 ? fmt::format("4 x {}x{}", spec.model.n, spec.model.width) : spec.model.name;
  const bool says_parts = !has_companions(spec) && spec.model.n == 0;
  const bool says_type = spec.weights == LayerWeights::int4 && has_fp8_tokens(spec);
  const bool promoted = spec.weights == LayerWeights::e4m3 && spec.accumulate == Accumulate::promoted;
  return fmt::format("{} {}{}, {} {}token{}{}{}", model, name_of(spec.weights), promoted ? " promoted" : "",
                     spec.tokens, says_type ? "e4m3 " : "", spec.tokens == 1 ? "" : "s",
                     says_parts ? ", projections" : "",
                     is_fused(spec) ? fmt::format(", fused: {}", name_of(spec.fusion)) : "");
}

}  // namespace sluice::bench
