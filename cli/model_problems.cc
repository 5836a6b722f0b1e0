// SPDX-License-Identifier: Apache-2.0
#include "cli/model_problems.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include <sluice/bench/chain.h>
#include <sluice/messages/errors.h>
#include <sluice/spec/packed.h>
#include <sluice/text.h>
#include <sluice/try.h>

namespace sluice::cli {
namespace {

/// A recipe of Python's convert_(). none: the layers stay 16-bit.
enum class LayerRecipe : u8 { none, tensor, row, block, int4, int8 };

struct NamedRecipe {
  const char* name;
  LayerRecipe recipe;
};
constexpr NamedRecipe kRecipes[] = {{"none", LayerRecipe::none}, {"tensor", LayerRecipe::tensor},
                                    {"row", LayerRecipe::row},   {"block", LayerRecipe::block},
                                    {"int4", LayerRecipe::int4}, {"int8", LayerRecipe::int8}};
constexpr const char* kRecipeNames = "none (bf16), tensor, row, block, int4, int8";

Result<LayerRecipe> recipe_of(const std::string& name) {
  for (const NamedRecipe& known : kRecipes)
    if (name == known.name) return known.recipe;
  if (name.empty()) return bad_argument("--model needs --recipe: one of {}", kRecipeNames);
  return bad_argument("--recipe {} is not one of: {}", in_quotes(name), kRecipeNames);
}

struct Layer {
  i64 n, k;

  bool operator==(const Layer&) const = default;
};

/// The linear layers of a transformer layer: q, k and v, o, gate and up, down. Each is a linear of its own,
/// as in transformers. Layers of equal size are listed once.
std::vector<Layer> layers_of(const bench::Model& m) {
  if (m.n > 0) return {{m.n, m.width}};
  const i64 keys = (m.qkv - m.attention) / 2;
  std::vector<Layer> layers;
  for (const Layer& layer : {Layer{m.attention, m.width}, Layer{keys, m.width}, Layer{m.width, m.attention},
                             Layer{m.inner, m.width}, Layer{m.width, m.inner}})
    if (layer.n > 0 && std::find(layers.begin(), layers.end(), layer) == layers.end())
      layers.push_back(layer);
  return layers;
}

/// The product that python/sluice/torch/_layers.py runs for a layer.
Problem problem_of(LayerRecipe recipe, const Layer& layer, i64 tokens) {
  const bool int4 = recipe == LayerRecipe::int4;
  if (int4 || recipe == LayerRecipe::int8)
    return packed_problem(tokens, layer.n, layer.k, DType::bf16, DType::bf16,
                          {.type = int4 ? WeightType::uint4 : WeightType::int8, .scale = DType::bf16});
  Problem p{.m = tokens, .n = layer.n, .k = layer.k};
  if (recipe == LayerRecipe::none) return p;
  p.a.type = p.b.type = DType::e4m3;
  p.epilogue.scale_a = p.epilogue.scale_b = recipe == LayerRecipe::tensor ? ScaleMode::tensor
                                            : recipe == LayerRecipe::row  ? ScaleMode::vector
                                                                          : ScaleMode::block;
  return p;
}

}  // namespace

void add_model_flags(CLI::App& app, ModelFlags& f) {
  const char* group = "Layers of a model";
  app.add_option("--model", f.model,
                 "A model's config.json, or what `sluice chain --model` takes: its linear layers, as "
                 "sluice.torch.nn.convert_ runs them")
      ->group(group);
  f.options = {
      app.add_option("--recipe", f.recipe, std::string("As for convert_: ") + kRecipeNames)->group(group),
      app.add_option("--tokens", f.tokens, "Numbers of tokens")
          ->delimiter(',')
          ->capture_default_str()
          ->check(CLI::Range(1, 1 << 20))
          ->group(group)};
}

bool is_model(const ModelFlags& flags) {
  return !flags.model.empty();
}

Result<std::vector<bench::Request>> requests_of_model(const ModelFlags& flags) {
  SLUICE_TAKE(const LayerRecipe recipe, recipe_of(flags.recipe));
  SLUICE_TAKE(const bench::Model model, bench::parse_model(flags.model));
  std::vector<bench::Request> requests;
  for (const Layer& layer : layers_of(model))
    for (const i64 tokens : flags.tokens)
      requests.push_back(bench::request_of(problem_of(recipe, layer, tokens)));
  return requests;
}

}  // namespace sluice::cli
