// SPDX-License-Identifier: Apache-2.0
// The JSON form of a record, both ways, from one list of its fields: `fields` visits each with its name and
// bounds, a Writer puts it down, a Reader takes it up and keeps the first rule that is broken.
// nlohmann/json is included here only; nothing of it throws as it is used.
#include <sluice/tuner/record.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr i64 kMaxInt = (i64{1} << 31) - 1;
constexpr double kMaxUs = 1e9;         // a quarter of an hour
constexpr std::size_t kMaxText = 200;  // names and versions are shorter
constexpr int kMaxDepth = 8;           // an array of objects is 2
constexpr const char* kRemedy = "; remove the record or tune the problem again";

struct Range {
  i64 low, high;
};

/// Enumerators by name: as many as name_of() knows, counted from 0.
template <class T>
constexpr int kCount = 0;
template <>
constexpr int kCount<DType> = kDTypeCount;
template <>
constexpr int kCount<Major> = 2;
template <>
constexpr int kCount<Sums> = 3;
template <>
constexpr int kCount<StorePath> = 2;
template <>
constexpr int kCount<ActivationCost> = 3;
template <>
constexpr int kCount<Adding> = 3;
template <>
constexpr int kCount<Bias> = 2;
template <>
constexpr int kCount<Schedule> = 3;
template <>
constexpr int kCount<Raster> = 2;
template <>
constexpr int kCount<Combine> = 4;

double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

class Writer {
 public:
  template <class Int>
  void number(const char* name, const Int& value, Range) {
    json_[name] = value;
  }
  void number_or(const char* name, int usual, const int& value, Range range) {
    if (value != usual) number(name, value, range);
  }
  template <class Enum>
  void choice(const char* name, const Enum& value) {
    json_[name] = name_of(value);
  }
  template <class Enum>
  void choice_or(const char* name, Enum usual, const Enum& value) {
    if (value != usual) choice(name, value);
  }
  void flag(const char* name, const bool& value) { json_[name] = value; }
  void text(const char* name, const std::string& value) { json_[name] = value; }
  void date(const char* name, const std::string& value) { json_[name] = value; }
  void time(const char* name, const double& value, bool) { json_[name] = rounded(value); }
  std::string line() const { return json_.dump(-1, ' ', false, Json::error_handler_t::replace); }

 private:
  Json json_ = Json::object();
};

bool is_date(const std::string& text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  return text.size() == kForm.size() &&
         std::equal(text.begin(), text.end(), kForm.begin(), [](char c, char form) {
           return form == '0' ? std::isdigit(static_cast<unsigned char>(c)) != 0 : c == form;
         });
}

bool is_plain(const std::string& text) {
  return !text.empty() && text.size() <= kMaxText && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isprint(static_cast<unsigned char>(c)) != 0;
  });
}

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  template <class Int>
  void number(const char* name, Int& value, Range range) {
    const Json* found = field(name);
    if (found == nullptr) return;
    const bool fits = found->is_number_integer() &&
                      (!found->is_number_unsigned() || found->template get<u64>() <= u64{kMaxInt}) &&
                      found->template get<i64>() >= range.low && found->template get<i64>() <= range.high;
    if (!fits)
      return refuse(
          name, "must be a whole number in " + std::to_string(range.low) + ".." + std::to_string(range.high));
    value = static_cast<Int>(found->template get<i64>());
  }
  template <class Enum>
  void choice(const char* name, Enum& value) {
    const Json* found = field(name);
    if (found == nullptr) return;
    std::string names;
    for (int i = 0; i < kCount<Enum>; ++i) {
      const char* candidate = name_of(static_cast<Enum>(i));
      if (found->is_string() && found->template get_ref<const std::string&>() == candidate) {
        value = static_cast<Enum>(i);
        return;
      }
      names += (i == 0 ? "" : ", ") + std::string(candidate);
    }
    refuse(name, "must be one of: " + names);
  }
  void number_or(const char* name, int usual, int& value, Range range) {
    value = usual;
    if (json_.contains(name)) number(name, value, range);
  }
  /// A field that is written only if it is not the usual value.
  template <class Enum>
  void choice_or(const char* name, Enum usual, Enum& value) {
    value = usual;
    if (json_.contains(name)) choice(name, value);
  }
  void flag(const char* name, bool& value) {
    const Json* found = field(name);
    if (found == nullptr) return;
    if (!found->is_boolean()) return refuse(name, "must be true or false");
    value = found->get<bool>();
  }
  void text(const char* name, std::string& value) {
    const Json* found = field(name);
    if (found == nullptr) return;
    if (!found->is_string() || !is_plain(found->get_ref<const std::string&>()))
      return refuse(name, "must be 1 to " + std::to_string(kMaxText) + " printable characters");
    value = found->get<std::string>();
  }
  void date(const char* name, std::string& value) {
    const Json* found = field(name);
    if (found == nullptr) return;
    if (!found->is_string() || !is_date(found->get_ref<const std::string&>()))
      return refuse(name, "must be a time of UTC like 2026-11-21T10:00:00Z");
    value = found->get<std::string>();
  }
  void time(const char* name, double& value, bool may_be_zero) {
    const Json* found = field(name);
    if (found == nullptr) return;
    const double us = found->is_number() ? found->get<double>() : -1;
    if (!(us <= kMaxUs && (us > 0 || (may_be_zero && us == 0))))
      return refuse(name,
                    std::string("must be microseconds, ") + (may_be_zero ? "0" : "above 0") + " to 1e9");
    value = us;
  }

  /// After all fields: what is left over is a field that this version does not know.
  std::string verdict() {
    if (!broken_.empty() || json_.size() == seen_.size()) return broken_;
    for (const auto& [name, value] : json_.items())
      if (std::find(seen_.begin(), seen_.end(), name) == seen_.end())
        return '"' + name.substr(0, kMaxText) + "\" is no field of version " +
               std::to_string(kRecordVersion) + kRemedy;
    return broken_;
  }

 private:
  const Json* field(const char* name) {
    if (!broken_.empty()) return nullptr;
    const auto found = json_.find(name);
    if (found == json_.end()) {
      broken_ = std::string("\"") + name + "\" is missing" + kRemedy;
      return nullptr;
    }
    seen_.push_back(name);
    value_ = &*found;
    return value_;
  }
  void refuse(const char* name, const std::string& rule) {
    std::string value = value_->dump(-1, ' ', true, Json::error_handler_t::replace);
    if (value.size() > kMaxText) value = value.substr(0, kMaxText) + "...";
    broken_ = std::string("\"") + name + "\" = " + value + " " + rule + kRemedy;
  }

  const Json& json_;
  const Json* value_ = nullptr;
  std::vector<std::string> seen_;
  std::string broken_;
};

/// Every field in the order of the file. `Record` is const for a Writer.
template <class Visitor, class Record>
void fields(Visitor& v, Record& r, int& version) {
  auto& recipe = r.key.recipe;
  auto& choice = r.choice;
  const Range size{1, kMaxInt}, tile{1, 1024}, cluster{1, 16};
  v.number("version", version, {kRecordVersion, kRecordVersion});
  v.text("gpu", r.key.gpu);
  v.number("sm_count", r.key.sm_count, {1, 4096});
  v.number("m", recipe.m, size);
  v.number("n", recipe.n, size);
  v.number("k", recipe.k, size);
  v.number("batch", recipe.batch, size);
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
  v.choice("schedule", choice.schedule);
  v.number("tile_m", choice.tile_m, tile);
  v.number("tile_n", choice.tile_n, tile);
  v.number("cluster_m", choice.cluster.m, cluster);
  v.number("cluster_n", choice.cluster.n, cluster);
  v.number("cluster_k", choice.cluster.k, cluster);
  v.choice("raster", choice.raster);
  v.number("raster_group", choice.raster_group, size);
  v.number("clusters", choice.clusters, {1, 65536});
  v.number("streamed", choice.streamed, {0, kMaxInt});
  v.choice_or("combine", Combine::last_arriver, choice.combine);
  v.number_or("warps", 0, choice.warps, {0, 64});
  v.number_or("stages", 0, choice.stages, {0, 64});
  v.time("us", choice.measured_us, false);
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
  Reader reader(json);
  fields(reader, record, version);
  return reader.verdict();
}

}  // namespace

TuningKey key_of(const Problem& problem, const DeviceInfo& device) {
  return {.gpu = device.name, .sm_count = device.sm_count, .recipe = recipe_of(problem)};
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
