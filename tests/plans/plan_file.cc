// SPDX-License-Identifier: Apache-2.0
// Keys are field names of text/fields.h, or short names for them, so a new field needs no code here.
#include "plan_file.h"

#include <charconv>
#include <map>
#include <sstream>

#include <sluice/kernels/registry.h>
#include <sluice/plan/text/field_text.h>
#include <sluice/records.h>

namespace sluice::plans {
namespace {

constexpr const char* kIndent = "    ";

bool named(std::string_view text, DType& type) {
  const std::optional<DType> found = enumerator_named<DType>(text);
  if (found) type = *found;
  return found.has_value();
}

/// Parses a whole number within the range of Integer.
template <class Integer>
bool number(const std::string& text, Integer& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool parse_shape(const std::string& word, Problem& p) {
  const std::vector<std::string> sizes = split(word, 'x');
  return sizes.size() == 3 && number(sizes[0], p.m) && number(sizes[1], p.n) && number(sizes[2], p.k);
}

/// Parses types such as "bf16", "e4m3>bf16" or "e4m3*e5m2>fp32".
bool parse_types(const std::string& word, Problem& p) {
  const std::size_t arrow = word.find('>'), star = word.find('*');
  const std::string inputs = word.substr(0, arrow);
  if (!named(inputs.substr(0, star), p.a.type)) return false;
  p.b.type = p.d.type = p.a.type;
  if (star != std::string::npos && !named(inputs.substr(star + 1), p.b.type)) return false;
  return arrow == std::string::npos || named(word.substr(arrow + 1), p.d.type);
}

bool parse_cluster(const std::string& text, std::optional<ClusterShape>& cluster) {
  const std::vector<std::string> sizes = split(text, 'x');
  ClusterShape shape;
  if (sizes.size() < 2 || !number(sizes[0], shape.m) || !number(sizes[1], shape.n)) return false;
  if (sizes.size() > 2 && !number(sizes[2], shape.k)) return false;
  cluster = shape;
  return true;
}

/// Returns the field that a short key stands for.
std::string field_of(const std::string& key) {
  static const std::map<std::string, std::string> kFields = {{"a", "a.major"},
                                                             {"b", "b.major"},
                                                             {"lda", "a.ld"},
                                                             {"ldb", "b.ld"},
                                                             {"ldc", "c.ld"},
                                                             {"ldd", "d.ld"},
                                                             {"a_batch", "a.batch_stride"},
                                                             {"b_batch", "b.batch_stride"},
                                                             {"c_batch", "c.batch_stride"},
                                                             {"d_batch", "d.batch_stride"},
                                                             {"scale_a", "epilogue.scale_a"},
                                                             {"scale_b", "epilogue.scale_b"},
                                                             {"scale_d", "epilogue.scale_d"},
                                                             {"act", "epilogue.activation"},
                                                             {"update", "epilogue.update"},
                                                             {"group", "raster_group"},
                                                             {"weight_group", "group"},
                                                             {"weight_scale", "scale"},
                                                             {"weight_order", "order"},
                                                             {"ring", "stages"}};
  const auto found = kFields.find(key);
  return found != kFields.end() ? found->second : key;
}

/// Applies keys that set more than one field. Returns nothing for other keys.
std::optional<bool> apply_special(const std::string& key, const std::string& value, Request& r) {
  Problem& p = r.problem;
  if (key == "gpu") {
    const Result<DeviceInfo> gpu = gpu_named(value);
    if (gpu) r.device = *gpu;
    return gpu.ok();
  }
  if (key == "weights") return p.b.packed = WeightFormat{}, set_field(p.b.packed, "type", value).ok();
  if (key == "cluster") return parse_cluster(value, r.overrides.cluster);
  if (key == "gated") return p.epilogue.gated = value == "yes", value == "yes" || value == "no";
  if (key == "row_factors") return p.epilogue.row_factors = value == "yes", value == "yes" || value == "no";
  if (key == "order") return p.deterministic = value == "fixed", value == "fixed" || value == "any";
  if (key == "bias") {
    p.epilogue.bias = Bias::column;
    return named(value, p.epilogue.bias_type);
  }
  if (key == "residual") {
    p.epilogue.residual = true;
    return named(value, p.epilogue.c_type);
  }
  return std::nullopt;
}

bool apply(const std::string& key, const std::string& value, Request& r) {
  if (const std::optional<bool> done = apply_special(key, value, r)) return *done;
  const std::map<std::string, int*> device = {{"sm_count", &r.device.sm_count},
                                              {"clusters_of_2", &r.device.max_clusters_of_2},
                                              {"clusters_of_4", &r.device.max_clusters_of_4},
                                              {"clusters_of_8", &r.device.max_clusters_of_8}};
  if (const auto found = device.find(key); found != device.end()) return number(value, *found->second);
  const std::string name = field_of(key);
  if (is_packed(r.problem) && (key == "zero" || key.starts_with("weight_")))
    return set_field(r.problem.b.packed, name, value).ok();
  return set_field(r.problem, name, value) || set_field(r.overrides, name, value);
}

std::string refusal(const Error& error) {
  return std::string(name_of(error.code)) + ": " + error.message;
}

}  // namespace

Result<Request> parse_request(const std::string& line) {
  Request request;
  std::istringstream words(line);
  std::string word;
  const auto refuse = [&](const char* what) {
    return Error{ErrorCode::invalid_argument, std::string(what) + " \"" + word + "\" in \"" + line + '"'};
  };
  if (!(words >> word) || !parse_shape(word, request.problem)) return refuse("not MxNxK:");
  if (!(words >> word) || !parse_types(word, request.problem)) return refuse("not types:");
  while (words >> word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || !apply(word.substr(0, equals), word.substr(equals + 1), request))
      return refuse("not understood:");
  }
  return request;
}

std::string outcome(const Request& r) {
  const Result<Plan> plan = gemm::plan(r.problem, r.device, r.overrides, RecordBook());
  if (!plan) return refusal(plan.error());
  if (is_packed(r.problem)) return short_name(plan->config);
  const WorkSplit& s = plan->split;
  return short_name(plan->config) + " | " + std::to_string(s.clusters) + " clusters " + name_of(s.raster) +
         " " + std::to_string(s.group) + (s.numbering == Numbering::gpc ? " by gpc" : "") + " | " +
         std::to_string(plan->estimate.waves) + " waves";
}

std::vector<Entry> parse_file(const std::string& text) {
  std::vector<Entry> entries;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t begin = line.find_first_not_of(' ');
    // An indented line: the expected outcome of the request above it.
    if (begin != std::string::npos && begin > 0) {
      if (!entries.empty()) entries.back().expected = line.substr(begin);
      continue;
    }
    entries.push_back({.line = number, .text = line, .request = !line.empty() && line[0] != '#'});
  }
  return entries;
}

std::string regenerate(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& entry : entries) {
    text += entry.text + "\n";
    if (!entry.request) continue;
    const Result<Request> request = parse_request(entry.text);
    text += kIndent + (request ? outcome(*request) : request.error().message) + "\n";
  }
  return text;
}

}  // namespace sluice::plans
