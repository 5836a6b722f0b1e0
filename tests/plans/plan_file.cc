// SPDX-License-Identifier: Apache-2.0
// See plan_file.h. Names of types and choices are looked up through name_of: a new enumerator needs no name
// here, only a larger count.
#include "plan_file.h"

#include <charconv>
#include <map>
#include <sstream>

#include <sluice/kernels/registry.h>
#include <sluice/records.h>

namespace sluice::plans {
namespace {

constexpr const char* kIndent = "    ";

template <class Enum>
bool named(const std::string& text, int count, Enum& value) {
  for (int i = 0; i < count; ++i)
    if (text == name_of(static_cast<Enum>(i))) {
      value = static_cast<Enum>(i);
      return true;
    }
  return false;
}

/// Whole, and in the range of the type.
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

/// "bf16", "e4m3>bf16", "e4m3*e5m2>fp32"
bool parse_types(const std::string& word, Problem& p) {
  const std::size_t arrow = word.find('>'), star = word.find('*');
  const std::string inputs = word.substr(0, arrow);
  if (!named(inputs.substr(0, star), kDTypeCount, p.a.type)) return false;
  p.b.type = p.d.type = p.a.type;
  if (star != std::string::npos && !named(inputs.substr(star + 1), kDTypeCount, p.b.type)) return false;
  return arrow == std::string::npos || named(word.substr(arrow + 1), kDTypeCount, p.d.type);
}

bool parse_cluster(const std::string& text, std::optional<ClusterShape>& cluster) {
  const std::vector<std::string> sizes = split(text, 'x');
  ClusterShape shape;
  if (sizes.size() != 2 || !number(sizes[0], shape.m) || !number(sizes[1], shape.n)) return false;
  cluster = shape;
  return true;
}

template <class Enum>
bool named(const std::string& text, int count, std::optional<Enum>& value) {
  return named(text, count, value.emplace());
}
bool number(const std::string& text, std::optional<int>& value) {
  return number(text, value.emplace());
}

bool apply(const std::string& key, const std::string& value, Request& r) {
  Problem& p = r.problem;
  const std::map<std::string, i64*> wide = {{"batch", &p.batch},
                                            {"lda", &p.a.ld},
                                            {"ldb", &p.b.ld},
                                            {"ldc", &p.c.ld},
                                            {"ldd", &p.d.ld},
                                            {"a_batch", &p.a.batch_stride},
                                            {"b_batch", &p.b.batch_stride},
                                            {"c_batch", &p.c.batch_stride},
                                            {"d_batch", &p.d.batch_stride}};
  const std::map<std::string, std::optional<int>*> overrides = {
      {"tile_m", &r.overrides.tile_m},     {"tile_n", &r.overrides.tile_n},
      {"stages", &r.overrides.stages},     {"group", &r.overrides.raster_group},
      {"clusters", &r.overrides.clusters}, {"splits", &r.overrides.splits},
      {"streamed", &r.overrides.streamed}};
  const std::map<std::string, int*> device = {{"sm_count", &r.device.sm_count},
                                              {"clusters_of_2", &r.device.max_clusters_of_2},
                                              {"clusters_of_4", &r.device.max_clusters_of_4},
                                              {"clusters_of_8", &r.device.max_clusters_of_8}};
  const std::map<std::string, std::optional<int>*> packed = {{"token_blocks", &r.packed.token_blocks},
                                                             {"row_blocks", &r.packed.row_blocks},
                                                             {"warps", &r.packed.warps},
                                                             {"ring", &r.packed.stages},
                                                             {"parts", &r.packed.parts},
                                                             {"ctas", &r.packed.ctas},
                                                             {"tokens", &r.packed.tokens},
                                                             {"cluster_n", &r.packed.cluster_n},
                                                             {"cluster_k", &r.packed.cluster_k},
                                                             {"x_stages", &r.packed.x_stages},
                                                             {"w_stages", &r.packed.w_stages},
                                                             {"tail_parts", &r.packed.tail_parts},
                                                             {"strips", &r.packed.strips},
                                                             {"k_groups", &r.packed.k_groups}};
  if (key == "weights") return named(value, 3, r.weights.emplace().type);
  if (r.weights && key == "weight_group") return number(value, r.weights->group);
  if (r.weights && key == "weight_scale") return named(value, kDTypeCount, r.weights->scale);
  if (r.weights && key == "zero") return named(value, 2, r.weights->zero);
  if (r.weights && key == "weight_order") return named(value, 2, r.weights->order);
  if (const auto found = packed.find(key); found != packed.end()) return number(value, *found->second);
  if (const auto found = wide.find(key); found != wide.end()) return number(value, *found->second);
  if (const auto found = overrides.find(key); found != overrides.end()) return number(value, *found->second);
  if (const auto found = device.find(key); found != device.end()) return number(value, *found->second);
  if (key == "gpu") {
    const Result<DeviceInfo> gpu = gpu_named(value);
    if (gpu) r.device = *gpu;
    return gpu.ok();
  }
  if (key == "a") return named(value, 2, p.a.major);
  if (key == "b") return named(value, 2, p.b.major);
  if (key == "scale_a") return named(value, 4, p.epilogue.scale_a);
  if (key == "scale_b") return named(value, 4, p.epilogue.scale_b);
  if (key == "scale_d") return named(value, 4, p.epilogue.scale_d);
  if (key == "gated") return p.epilogue.gated = value == "yes", value == "yes" || value == "no";
  if (key == "act") return named(value, 4, p.epilogue.activation);
  if (key == "accumulate") return named(value, 2, p.accumulate);
  if (key == "update") return named(value, 2, p.epilogue.update);
  if (key == "order") return p.deterministic = value == "fixed", value == "fixed" || value == "any";
  if (key == "bias") {
    p.epilogue.bias = Bias::column;
    return named(value, kDTypeCount, p.epilogue.bias_type);
  }
  if (key == "residual") {
    p.epilogue.residual = true;
    return named(value, kDTypeCount, p.epilogue.c_type);
  }
  if (key == "schedule") return named(value, 2, r.overrides.schedule);
  if (key == "store") return named(value, 2, r.overrides.store);
  if (key == "numbering") return named(value, 2, r.overrides.numbering);
  if (key == "raster") return named(value, 2, r.overrides.raster);
  if (key == "cluster") return parse_cluster(value, r.overrides.cluster);
  return false;
}

std::string refusal(const Error& error) {
  return std::string(name_of(error.code)) + ": " + error.message;
}

std::string packed_outcome(const Request& r) {
  const Problem& p = r.problem;
  const Result<packed::Plan> plan = packed::plan({.m = p.m,
                                                  .n = p.n,
                                                  .k = p.k,
                                                  .x = p.a.type,
                                                  .scale_x = p.epilogue.scale_a,
                                                  .d = p.d.type,
                                                  .weights = *r.weights,
                                                  .bias = p.epilogue.bias,
                                                  .bias_type = p.epilogue.bias_type,
                                                  .activation = p.epilogue.activation,
                                                  .ld_x = p.a.ld,
                                                  .ld_d = p.d.ld},
                                                 r.device, r.packed, RecordBook());
  return plan ? packed::short_name(plan->config) : refusal(plan.error());
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
  if (r.weights) return packed_outcome(r);
  const Result<Plan> plan = gemm::plan(r.problem, r.device, r.overrides, RecordBook());
  if (!plan) return refusal(plan.error());
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
    if (begin != std::string::npos && begin > 0) {  // indented: what the request above should give
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
