// SPDX-License-Identifier: Apache-2.0
// The JSON form of a record. One list of fields (record_fields.h for a product's) serves a Writer and a
// Reader (record_json.h). A record of packed weights has the field "weights".
#include <sluice/plan/records/record.h>

#include <sluice/plan/records/record_fields.h>

namespace sluice {
namespace {

using namespace record_json;

constexpr std::size_t kMostTroubles = 100;  // per file

/// Visits every field in the file's order.
template <class Visitor, class Record>
void fields(Visitor& v, Record& r, int& version) {
  v.number("version", version, {kRecordVersion, kRecordVersion});
  v.text("gpu", r.key.gpu);
  v.number("sm_count", r.key.sm_count, {1, 4096});
  recipe_fields(v, r.key.recipe);
  choice_fields(v, r.choice);
  v.time("us", r.choice.measured_us, false);
  v.time("model_us", r.model_us, true);
  v.time("estimate_us", r.estimate_us, true);
  v.text("sluice", r.sluice);
  v.text("driver", r.driver);
  v.date("date", r.date);
  v.text("method", r.method);
  v.text_if("card", r.card);
}

/// Reads `record`. Returns the first fault, or "" if there is none.
std::string read(const Json& json, TuningRecord& record) {
  if (!json.is_object()) return std::string("must be a JSON object") + kRemedy;
  int version = 0;
  if (json.contains(kPackedField)) record.key.recipe = kPackedRecipe, record.choice = kDecoder;
  Reader reader(json);
  fields(reader, record, version);
  return reader.verdict(kRecordVersion);
}

}  // namespace

TuningKey key_of(const Problem& problem, const DeviceInfo& device) {
  return {.gpu = device.name, .sm_count = device.sm_count, .recipe = recipe_of(problem)};
}

bool is_of_race(const TuningRecord& record) {
  return !record.card.empty() || record.method.starts_with("a race of ");
}

std::string to_json(const TuningRecord& record) {
  int version = kRecordVersion;
  Writer writer;
  fields(writer, record, version);
  return writer.line();
}

std::string to_json(std::vector<TuningRecord> records, std::vector<TunedChain> chains) {
  std::stable_sort(records.begin(), records.end(), [](const TuningRecord& x, const TuningRecord& y) {
    const bool packed = is_packed(x.key.recipe);
    return packed == is_packed(y.key.recipe) ? x.key < y.key : !packed;
  });
  std::stable_sort(chains.begin(), chains.end(),
                   [](const TunedChain& x, const TunedChain& y) { return x.name < y.name; });
  std::string text;
  const auto add = [&](const auto& record) { text += (text.empty() ? "[\n" : ",\n") + to_json(record); };
  for (const TuningRecord& record : records) add(record);
  for (const TunedChain& chain : chains) add(chain);
  return (text.empty() ? "[" : text) + "\n]\n";
}

ParsedRecords parse_records(std::string_view text, const std::string& where) {
  ParsedRecords parsed;
  const Result<Json> read_json = parse_json_text(text);
  if (!read_json) {
    parsed.troubles.push_back(where + ": not a JSON record or array of records: it " +
                              read_json.error().message + kRemedy);
    return parsed;
  }
  const Json& json = *read_json;
  const auto refuse = [&](const std::string& trouble) {
    if (parsed.troubles.size() < kMostTroubles) parsed.troubles.push_back(trouble);
    if (parsed.troubles.size() == kMostTroubles)
      parsed.troubles.back() = where + ": more records are passed over, which are not listed" + kRemedy;
  };
  const auto add = [&](const Json& item, const std::string& place) {
    TuningRecord record;
    TunedChain chain;
    const bool is_chain = item.is_object() && item.contains(kTunedChainSteps);
    const std::string broken = is_chain ? read_tuned_chain(item, chain) : read(item, record);
    if (!broken.empty())
      refuse(place + ": " + broken);
    else if (is_chain)
      parsed.chains.push_back(std::move(chain));
    else
      (is_of_race(record) ? parsed.races : parsed.records).push_back(std::move(record));
  };
  if (!json.is_array()) add(json, where);
  for (std::size_t i = 0; json.is_array() && i < json.size(); ++i)
    add(json[i], where + ": record " + std::to_string(i));
  return parsed;
}

}  // namespace sluice
