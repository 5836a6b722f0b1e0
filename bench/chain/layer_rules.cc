// SPDX-License-Identifier: Apache-2.0
// Some keys of a config describe layers that a chain cannot model. No key says whether there is a gate. That
// follows from model_type, so an unknown family is refused instead of being modelled wrongly.
#include "bench/chain/layer_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include <sluice/text.h>

namespace sluice::bench {
namespace {

/// A rule for numbers of a model's config: a value above `most` under one of `keys` means layers that a chain
/// cannot model.
struct NumberRule {
  std::string_view keys[4];
  double most;
  std::string_view means;
};
constexpr NumberRule kNumbers[] = {
    {{"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"},
     1,
     "its layers have experts, a chain's are dense"},
    {{"num_experts_per_tok", "moe_intermediate_size"}, 0, "its layers have experts, a chain's are dense"},
    {{"q_lora_rank", "kv_lora_rank", "o_lora_rank"},
     0,
     "its projections are two products of low rank, a chain's are one of full rank"}};

constexpr std::array kActivations = {
    "hidden_act",      "hidden_activation", "activation_function", "activation",
    "activation_type", "dense_act_fn",      "ffn_activation",      "act_fn"};
constexpr std::array kSilu = {"silu", "swish", "swiglu"};
/// Boolean config keys that are true only in models whose layers compute something else or something more.
constexpr std::array kOtherLayers = {"is_encoder_decoder", "add_cross_attention", "parallel_attn",
                                     "use_parallel_residual", "attn_output_gate"};
constexpr std::array kAttentions = {"full_attention", "sliding_attention", "chunked_attention"};
/// Values of "model_type" whose decoder layers are dense and full-rank, with silu(gate) * up.
constexpr std::array kFamilies = {
    "llama",         "mistral",   "ministral",       "qwen2",           "qwen3",         "qwen2_vl",
    "qwen2_vl_text", "mistral3",  "qwen2_5_vl",      "qwen2_5_vl_text", "qwen3_vl_text", "phi3",
    "internlm",      "internlm2", "internlm3",       "smollm3",         "granite",       "olmo",
    "olmo2",         "olmo3",     "exaone",          "exaone4",         "ernie4_5",      "glm",
    "glm4",          "helium",    "baichuan",        "aquila",          "minicpm",       "mimo",
    "seed_oss",      "stablelm",  "hunyuan_v1_dense"};

template <class List>
bool is_in(const Json& value, const List& list) {
  return value.is_string() && std::find(list.begin(), list.end(), value.get<std::string>()) != list.end();
}

/// Returns the value of `key`; nullptr if it is absent or JSON null.
const Json* given(const Json& config, std::string_view key) {
  const auto found = config.find(key);
  return found == config.end() || found->is_null() ? nullptr : &*found;
}

std::string fault(std::string_view key, const Json& value, std::string_view means) {
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return fmt::format("{} is {}: {}; sluice bench times its products one by one", key, escaped(text), means);
}

std::string number_fault(const Json& config) {
  for (const auto& [keys, most, means] : kNumbers)
    for (const std::string_view key : keys)
      if (const Json* value = key.empty() ? nullptr : given(config, key);
          value != nullptr && value->is_number() && value->get<double>() > most)
        return fault(key, *value, means);
  return "";
}

}  // namespace

std::string why_not_dense_layers(const Json& config) {
  if (std::string found = number_fault(config); !found.empty()) return found;
  bool has_activation = false;
  for (const char* key : kActivations)
    if (const Json* value = given(config, key)) {
      has_activation = true;
      if (!is_in(*value, kSilu)) return fault(key, *value, "a chain's layers compute silu(gate) * up");
    }
  for (const char* key : kOtherLayers)
    if (const Json* value = given(config, key); value != nullptr && *value != false)
      return fault(key, *value, "a chain's layers are attention, then a product, one after the other");
  if (const Json* types = given(config, "layer_types"); types != nullptr && types->is_array())
    for (const Json& type : *types)
      if (!is_in(type, kAttentions)) return fault("layer_types", type, "a chain's layers have attention");
  const Json* family = given(config, "model_type");
  if (family == nullptr)
    return has_activation ? "" : "has no model_type and no hidden_act, which say what its layers compute";
  if (is_in(*family, kFamilies)) return "";
  return fault("model_type", *family, "its layers are not known to compute silu(gate) * up") +
         ", and a model that has such layers can be given in numbers, like 8192x1280x1024x3584";
}

}  // namespace sluice::bench
