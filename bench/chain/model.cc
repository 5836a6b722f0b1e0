// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include <sluice/bench/chain.h>
#include <sluice/bench/parse.h>
#include <sluice/messages/errors.h>
#include <sluice/plan/text/json_text.h>
#include <sluice/run/text_file.h>
#include <sluice/text.h>
#include <sluice/try.h>

#include "bench/chain/layer_rules.h"

namespace sluice::bench {
namespace {

constexpr i64 kMostSize = i64{1} << 20;
constexpr i64 kColumnUnit = 16;  // rows of e4m3 must begin at multiples of 16 bytes

bool fits(const Model& m) {
  for (const i64 size : {m.width, m.qkv, m.attention, m.inner})
    if (size <= 0 || size > kMostSize || size % kColumnUnit != 0) return false;
  return m.attention <= m.qkv;
}

constexpr const char* kAsNumbers = "; give the sizes as numbers, like 8192x1280x1024x3584";

/// Returns the part of a config that describes the decoder. In multimodal models it is a nested object.
const Json& decoder_of(const Json& whole) {
  for (const char* key : {"text_config", "llm_config", "language_config"})
    if (whole.contains(key) && whole[key].is_object()) return whole[key];
  return whole;
}

/// Returns the number under `key`. If the config has none: `otherwise`, or an error without `otherwise`.
Result<i64> number_of(const Json& config, const char* key, std::optional<i64> otherwise) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) {
    if (otherwise) return *otherwise;
    return bad_argument("has no {}{}", key, kAsNumbers);
  }
  const i64 value = found->is_number_integer() ? found->get<i64>() : 0;
  if (value > 0 && value <= kMostSize) return value;
  return bad_argument("{} must be a whole number in 1..{}{}", key, kMostSize, kAsNumbers);
}

/// Returns the sizes of the dense decoder that a config describes, or of one of `shards` tensor-parallel
/// shards. qkv and gate_up are split by output columns, o and down by input columns.
Result<Model> model_of(const Json& whole, const std::string& title, i64 shards) {
  const Json& config = decoder_of(whole);
  SLUICE_TAKE(const i64 width, number_of(config, "hidden_size", {}));
  SLUICE_TAKE(const i64 inner, number_of(config, "intermediate_size", {}));
  SLUICE_TAKE(const i64 heads, number_of(config, "num_attention_heads", {}));
  SLUICE_TAKE(const i64 kv_heads, number_of(config, "num_key_value_heads", heads));
  SLUICE_TAKE(const i64 head, number_of(config, "head_dim", width / heads));
  if (const std::string other = why_not_dense_layers(config); !other.empty())
    return bad_argument("{}", other);
  if (heads % shards != 0 || inner % shards != 0 || (kv_heads % shards != 0 && shards % kv_heads != 0))
    return bad_argument("{} shards do not divide {} heads, {} heads of keys and {} columns", shards, heads,
                        kv_heads, inner);
  // With more shards than heads of keys and values, shards share a head.
  const i64 own_kv_heads = std::max<i64>(kv_heads / shards, 1);
  const Model model{shards > 1 ? fmt::format("{}-tp{}", title, shards) : title, width,
                    (heads / shards + 2 * own_kv_heads) * head, heads / shards * head, inner / shards};
  if (!fits(model))
    return bad_argument("its sizes ({}x{}x{}x{}) must be multiples of {}", model.width, model.qkv,
                        model.attention, model.inner, kColumnUnit);
  return model;
}

/// Returns the model's name: of a config.json, the name of its folder; of another file, the file's name
/// without extension.
std::string title_of(const std::filesystem::path& file) {
  std::error_code unused;
  const std::string folder = std::filesystem::absolute(file, unused).parent_path().filename().string();
  return file.filename() == "config.json" && !folder.empty() ? folder : file.stem().string();
}

Result<Model> read_model(const std::string& path, i64 shards) {
  const std::string where = "--model " + escaped(path);
  SLUICE_TAKE(const std::string text, read_text_file(path, kMostJsonBytes));
  const Result<Json> config = parse_json_text(text);
  if (!config) return within(where, config.error());
  if (!config->is_object()) return bad_argument("{}: the file is not a JSON object", where);
  const Result<Model> model = model_of(*config, title_of(path), shards);
  if (!model) return within(where, model.error());
  return model;
}

/// Returns the file and the number of shards: "config.json:8", or a folder that holds a config.json. Returns
/// nothing if `text` names neither.
std::optional<std::pair<std::string, i64>> file_of(const std::string& text) {
  const size_t colon = text.rfind(':');
  i64 shards = 1;
  char rest = 0;
  const bool sharded =
      colon != std::string::npos && std::sscanf(text.c_str() + colon + 1, "%lld%c", &shards, &rest) == 1;
  if (sharded && shards < 1) return std::nullopt;
  const std::filesystem::path path(sharded ? text.substr(0, colon) : text);
  std::error_code unused;
  if (std::filesystem::is_directory(path, unused)) return std::pair((path / "config.json").string(), shards);
  if (path.extension() == ".json") return std::pair(path.string(), shards);
  return std::nullopt;
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
  if (const auto file = file_of(text)) return read_model(file->first, file->second);
  if (const auto four = parse_sizes(text, 4, "--model", "")) {
    const Model sizes{text, (*four)[0], (*four)[1], (*four)[2], (*four)[3]};
    if (fits(sizes)) return sizes;
  }
  if (const auto two = parse_sizes(text, 2, "--model", "")) {
    const i64 n = (*two)[0], k = (*two)[1];
    if (n > 0 && k >= n)
      return Model{.name = "product", .width = k, .qkv = n, .attention = k, .inner = k, .n = n};
  }
  if (std::count(text.begin(), text.end(), '/') == 1)
    return bad_argument(
        "--model {} is no file: for a model of a hub give the path of its config.json, which `hf download {} "
        "config.json` prints",
        in_quotes(text), escaped(text));
  return bad_argument(
      "--model {} is not one of: {}; nor n x k of equal products, like 1280x8192, with n at most k; nor "
      "width x qkv x attention x inner, like 8192x1280x1024x3584, multiples of {} with attention at most "
      "qkv; nor a config.json or its folder",
      in_quotes(text), names, kColumnUnit);
}

}  // namespace sluice::bench
