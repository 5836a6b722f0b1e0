// SPDX-License-Identifier: Apache-2.0
// JSON of the bench's records. Keys are in a readable order, and numbers are rounded to the precision of a
// measurement.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <sluice/bench/record.h>

namespace sluice::bench {

using Json = nlohmann::ordered_json;

inline double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

inline Json spread_json(const Quantiles& us) {
  return {{"median", rounded(us.median)}, {"p10", rounded(us.p10)}, {"p90", rounded(us.p90)}};
}
inline Json rounds_json(const std::vector<double>& rounds) {
  Json json = Json::array();
  for (const double us : rounds) json.push_back(rounded(us));
  return json;
}

/// Returns a JSON array of make(value) for each value.
template <class Values, class Make>
Json array_of(const Values& values, const Make& make) {
  Json json = Json::array();
  for (const auto& value : values) json.push_back(make(value));
  return json;
}

/// Describes machine, versions and method of a run, without its shapes.
Json run_json(const RunRecord& run, const char* schema);
/// Returns the JSON as text that ends in a newline. Bytes that are not valid UTF-8 are replaced.
std::string json_text(const Json& json, int indent = 1);

}  // namespace sluice::bench
