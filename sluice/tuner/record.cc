// SPDX-License-Identifier: Apache-2.0
// The JSON form of a record, both ways, from one list of its fields: `fields` visits each with its name and
// bounds, a Writer or a Reader (record_json.h) does the rest. A record of packed weights is one that has the
// field "weights".
#include <sluice/tuner/record.h>

#include <sluice/tuner/record_json.h>

namespace sluice {
namespace {

using namespace record_json;
using mixed::Is;

constexpr const char* kMixedField = "weights";  // that no dense record has
constexpr Range kSize{1, kMaxInt};

// Values are const for a Writer. One function for each kind of recipe and of choice.
template <class Visitor, Is<Recipe> Values>
void recipe_fields(Visitor& v, Values& recipe) {
  v.number("m", recipe.m, kSize);
  v.number("n", recipe.n, kSize);
  v.number("k", recipe.k, kSize);
  v.number("batch", recipe.batch, kSize);
  v.choice("a", recipe.a);
  v.choice("b", recipe.b);
  v.choice("d", recipe.d);
  v.choice("a_layout", recipe.a_major);
  v.choice("b_layout", recipe.b_major);
  v.choice("sums", recipe.sums);
  v.choice("store", recipe.store);
  v.flag("vectors", recipe.vectors);
  v.choice("activation", recipe.activation);
  v.number("residual_bytes", recipe.residual_bytes, {0, 4});
  v.choice_or("bias", Bias::none, recipe.bias);
  v.choice_or("adding", Adding::none, recipe.adding);
  v.flag_if("gated", recipe.gated);
}

template <class Visitor, Is<MixedRecipe> Values>
void recipe_fields(Visitor& v, Values& recipe) {
  v.number("m", recipe.m, kSize);
  v.number("n", recipe.n, kSize);
  v.number("k", recipe.k, kSize);
  v.choice("x", recipe.x);
  v.choice_or("scale_x", ScaleMode::none, recipe.scale_x);
  v.choice("d", recipe.d);
  v.choice(kMixedField, recipe.weights);
  v.number("group", recipe.group, {0, kPackedTileK});
  v.choice("weight_scale", recipe.weight_scale);
  v.choice("zero", recipe.zero);
  v.choice_or("order", FragmentOrder::half, recipe.order);
  v.choice("store", recipe.store);
  v.choice("activation", recipe.activation);
  v.choice_or("bias", Bias::none, recipe.bias);
}

template <class Visitor, Is<TunedChoice> Values>
void choice_fields(Visitor& v, Values& choice) {
  const Range tile{1, 1024}, cluster{1, 16};
  v.choice("schedule", choice.schedule);
  v.number("tile_m", choice.tile_m, tile);
  v.number("tile_n", choice.tile_n, tile);
  v.number("cluster_m", choice.cluster.m, cluster);
  v.number("cluster_n", choice.cluster.n, cluster);
  v.number("cluster_k", choice.cluster.k, cluster);
  v.choice("raster", choice.raster);
  v.number("raster_group", choice.raster_group, kSize);
  v.number("clusters", choice.clusters, {1, 65536});
  v.number("streamed", choice.streamed, {0, kMaxInt});
  v.choice_or("combine", Combine::last_arriver, choice.combine);
  v.number_or("warps", 0, choice.warps, {0, 64});
  v.number_or("stages", 0, choice.stages, {0, 64});
}

/// Names and order of a kernel's fields are for_each_choice's; their rules are the planner's.
template <class Visitor, Is<mixed::TunedChoice> Values>
void choice_fields(Visitor& v, Values& choice) {
  v.kernel("kernel", choice.config);
  const auto number = [&](const char* name, auto& value) { v.number(name, value, {0, 1024}); };
  std::visit([&](auto& config) { mixed::for_each_choice(config, number); }, choice.config);
}

/// Every field in the order of the file.
template <class Visitor, class Record>
void fields(Visitor& v, Record& r, int& version) {
  v.number("version", version, {kRecordVersion, kRecordVersion});
  v.text("gpu", r.key.gpu);
  v.number("sm_count", r.key.sm_count, {1, 4096});
  std::visit([&](auto& recipe) { recipe_fields(v, recipe); }, r.key.recipe);
  std::visit(
      [&](auto& choice) {
        choice_fields(v, choice);
        v.time("us", choice.measured_us, false);
      },
      r.choice);
  v.time("model_us", r.model_us, true);
  v.time("estimate_us", r.estimate_us, true);
  v.text("sluice", r.sluice);
  v.text("driver", r.driver);
  v.date("date", r.date);
  v.text("method", r.method);
}

/// Nested deeper than an array of records is? The JSON library may recurse as deep as its input does.
bool is_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (depth > kMaxDepth) return true;
  }
  return false;
}

/// What is wrong with it; empty: `record` holds it.
std::string read(const Json& json, TuningRecord& record) {
  if (!json.is_object()) return std::string("must be a JSON object") + kRemedy;
  int version = 0;
  if (json.contains(kMixedField)) {
    record.key.recipe = MixedRecipe{};
    record.choice = mixed::TunedChoice{};
  }
  Reader reader(json);
  fields(reader, record, version);
  return reader.verdict();
}

}  // namespace

TuningKey key_of(const Problem& problem, const DeviceInfo& device) {
  return {.gpu = device.name, .sm_count = device.sm_count, .recipe = recipe_of(problem)};
}

TuningKey key_of(const MixedProblem& problem, const DeviceInfo& device) {
  return {.gpu = device.name, .sm_count = device.sm_count, .recipe = recipe_of(problem)};
}

double measured_us(const TuningRecord& record) {
  return std::visit([](const auto& choice) { return choice.measured_us; }, record.choice);
}

std::string to_json(const TuningRecord& record) {
  int version = kRecordVersion;
  Writer writer;
  fields(writer, record, version);
  return writer.line();
}

std::string to_json(std::vector<TuningRecord> records) {
  std::stable_sort(records.begin(), records.end(),
                   [](const TuningRecord& x, const TuningRecord& y) { return x.key < y.key; });
  std::string text = "[";
  for (std::size_t i = 0; i < records.size(); ++i) text += (i == 0 ? "\n" : ",\n") + to_json(records[i]);
  return text + "\n]\n";
}

ParsedRecords parse_records(std::string_view text, const std::string& where) {
  ParsedRecords parsed;
  const Json json =
      is_deep(text) ? Json(Json::value_t::discarded) : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    parsed.troubles.push_back(where + ": not a JSON record or array of records" + kRemedy);
    return parsed;
  }
  const auto add = [&](const Json& item, const std::string& place) {
    TuningRecord record;
    const std::string broken = read(item, record);
    if (broken.empty())
      parsed.records.push_back(std::move(record));
    else
      parsed.troubles.push_back(place + ": " + broken);
  };
  if (!json.is_array()) add(json, where);
  for (std::size_t i = 0; json.is_array() && i < json.size(); ++i)
    add(json[i], where + ": record " + std::to_string(i));
  return parsed;
}

}  // namespace sluice
