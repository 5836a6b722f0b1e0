// SPDX-License-Identifier: Apache-2.0
#include "bench/chain/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include <sluice/tools.h>
#include <sluice/try.h>

#include "bench/errors.h"
#include "bench/parse.h"

namespace sluice::bench {
namespace {

constexpr i64 kMostColumns = i64{1} << 20;
constexpr i64 kColumnUnit = 16;  // e4m3 rows begin at multiples of 16 bytes
constexpr const char* kExperts[] = {"num_experts", "num_local_experts", "n_routed_experts"};

bool fits(const Model& m) {
  for (const i64 size : {m.width, m.qkv, m.attention, m.inner})
    if (size <= 0 || size > kMostColumns || size % kColumnUnit != 0) return false;
  return m.attention <= m.qkv;
}

/// Returns the sizes of a config that describes a dense decoder, or of one of `shards` parts of it. qkv and
/// gate_up are split by columns, o and down by what they read.
Result<Model> model_of(const Json& whole, const std::string& name, i64 shards) {
  const Json& config = whole.contains("text_config") ? whole["text_config"] : whole;
  if (!config.is_object()) return bad_argument("--model {}: text_config is not an object", in_quotes(name));
  for (const char* key : kExperts)
    if (config.contains(key) && config[key].is_number_integer() && config[key].get<i64>() > 1)
      return bad_argument("--model {}: {} says that its layers have experts; a chain is of dense layers",
                          in_quotes(name), key);
  const auto number = [&](const char* key, std::optional<i64> otherwise) -> Result<i64> {
    const auto found = config.find(key);
    const bool given = found != config.end() && !found->is_null();
    const i64 value = !given ? otherwise.value_or(0) : found->is_number_integer() ? found->get<i64>() : 0;
    if (value > 0 && value <= kMostColumns) return value;
    return bad_argument(
        "--model {}: {} must be a number in 1..{}; give the sizes as numbers, like "
        "8192x1280x1024x3584",
        in_quotes(name), key, kMostColumns);
  };
  SLUICE_TAKE(const i64 width, number("hidden_size", {}));
  SLUICE_TAKE(const i64 inner, number("intermediate_size", {}));
  SLUICE_TAKE(const i64 heads, number("num_attention_heads", {}));
  SLUICE_TAKE(const i64 kv_heads, number("num_key_value_heads", heads));
  SLUICE_TAKE(const i64 head, number("head_dim", width / heads));
  if (heads % shards != 0 || inner % shards != 0 || (kv_heads % shards != 0 && shards % kv_heads != 0))
    return bad_argument("--model {}: {} shards do not divide {} heads, {} heads of keys and {} columns",
                        in_quotes(name), shards, heads, kv_heads, inner);
  const i64 own_kv_heads = std::max<i64>(kv_heads / shards, 1);  // more shards than heads: each has a copy
  const Model model{shards > 1 ? fmt::format("{}-tp{}", name, shards) : name, width,
                    (heads / shards + 2 * own_kv_heads) * head, heads / shards * head, inner / shards};
  if (!fits(model))
    return bad_argument("--model {}: its sizes ({}x{}x{}x{}) must be multiples of {}", in_quotes(name),
                        model.width, model.qkv, model.attention, model.inner, kColumnUnit);
  return model;
}

Result<Model> read_model(const std::string& path, i64 shards) {
  SLUICE_TAKE(const std::string text, read_text_file(path, kMostJsonBytes));
  SLUICE_TAKE(const Json config, parse_json_text(text));
  if (!config.is_object()) return bad_argument("--model {}: the file is not a JSON object", in_quotes(path));
  const std::filesystem::path file(path);
  const std::string folder = file.parent_path().filename().string();
  return model_of(config, folder.empty() ? file.stem().string() : folder, shards);
}

}  // namespace

const std::vector<Model>& known_models() {
  static const std::vector<Model> models = {{"llama3-8b", 4096, 6144, 4096, 14336},
                                            {"llama3-70b-tp8", 8192, 1280, 1024, 3584},
                                            {"qwen3-8b", 4096, 6144, 4096, 12288}};
  return models;
}

Result<Model> parse_model(const std::string& text) {
  std::string names;
  for (const Model& model : known_models()) {
    if (text == model.name) return model;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", model.name);
  }
  if (const size_t end = text.rfind(".json"); end != std::string::npos) {
    i64 shards = 1;
    char rest = 0;
    const std::string behind = text.substr(end + 5);
    if (behind.empty() || (std::sscanf(behind.c_str(), ":%lld%c", &shards, &rest) == 1 && shards > 0))
      return read_model(text.substr(0, end + 5), shards);
  }
  if (const auto four = parse_sizes(text, 4, "--model", "")) {
    const Model sizes{text, (*four)[0], (*four)[1], (*four)[2], (*four)[3]};
    if (fits(sizes)) return sizes;
  }
  if (const auto two = parse_sizes(text, 2, "--model", "")) {
    const i64 n = (*two)[0], k = (*two)[1];
    if (n > 0 && k >= n)
      return Model{.name = "product", .width = k, .qkv = n, .attention = k, .inner = k, .n = n};
  }
  return bad_argument(
      "--model {} is not one of: {}; nor n x k of equal products, like 1280x8192, with n at most k; nor "
      "width x qkv x attention x inner, like 8192x1280x1024x3584, multiples of {} with attention at most "
      "qkv; nor a config.json",
      in_quotes(text), names, kColumnUnit);
}

}  // namespace sluice::bench
