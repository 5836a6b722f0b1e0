// SPDX-License-Identifier: Apache-2.0
// See choices.h.
#include <sluice/c_api/choices.h>

#include <charconv>
#include <limits>
#include <string>
#include <string_view>

#include <sluice/host/text/quoted.h>

namespace sluice::c_api {
namespace {

template <class Value>
struct Choice {
  const char* name;
  Value value;
};

Error wrong_value(std::string_view name, std::string_view value, const std::string& rule) {
  return {ErrorCode::invalid_argument, std::string(name) + " = " + in_quotes(value) + " must be " + rule};
}

/// Sets `target` to the enumerator that is called `text`.
template <class Enum, std::size_t kCount>
Result<void> take(std::string_view name, std::string_view text, const Enum (&values)[kCount],
                  std::optional<Enum>& target) {
  std::string names;
  for (const Enum value : values) {
    if (text == name_of(value)) {
      target = value;
      return {};
    }
    names += (names.empty() ? "" : ", ") + std::string(name_of(value));
  }
  return wrong_value(name, text, "one of " + names);
}

Result<i64> number_of(std::string_view name, std::string_view text, i64 most) {
  i64 value = -1;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  if (error == std::errc{} && end == text.end() && value >= 0 && value <= most) return value;
  return wrong_value(name, text, most == 1 ? "0 or 1" : "a whole number from 0 to " + std::to_string(most));
}

constexpr i64 kMostInt = std::numeric_limits<int>::max();

Result<void> take(std::string_view name, std::string_view text, std::optional<int>& target) {
  const Result<i64> number = number_of(name, text, kMostInt);
  if (!number) return number.error();
  target = static_cast<int>(*number);
  return {};
}

Result<void> take_switch(std::string_view name, std::string_view text, bool& target) {
  const Result<i64> number = number_of(name, text, 1);
  if (!number) return number.error();
  target = *number != 0;
  return {};
}

/// A part of the cluster's shape; those that are not given are 1.
Result<void> take_cluster(std::string_view name, std::string_view text, int ClusterShape::*side,
                          std::optional<ClusterShape>& target) {
  std::optional<int> number;
  if (Result<void> taken = take(name, text, number); !taken) return taken;
  if (!target) target = ClusterShape{1, 1, 1};
  (*target).*side = *number;
  return {};
}

Error unknown(std::string_view name, const std::string& known) {
  return {ErrorCode::invalid_argument, "choices name " + in_quotes(name) + ", and may name " + known};
}

Result<void> set(PlanOverrides& o, std::string_view name, std::string_view text) {
  constexpr Schedule kSchedules[] = {Schedule::ping_pong, Schedule::cooperative, Schedule::plain,
                                     Schedule::plain_wgmma};
  constexpr StorePath kStores[] = {StorePath::tma, StorePath::direct};
  constexpr Raster kRasters[] = {Raster::along_m, Raster::along_n};
  constexpr Combine kCombines[] = {Combine::none, Combine::last_arriver, Combine::separate, Combine::add};
  constexpr Numbering kNumberings[] = {Numbering::launch, Numbering::gpc};
  if (name == "schedule") return take(name, text, kSchedules, o.schedule);
  if (name == "store") return take(name, text, kStores, o.store);
  if (name == "raster") return take(name, text, kRasters, o.raster);
  if (name == "combine") return take(name, text, kCombines, o.combine);
  if (name == "numbering") return take(name, text, kNumberings, o.numbering);
  if (name == "ignore_records") return take_switch(name, text, o.ignore_records);
  if (name == "swapped") return take_switch(name, text, o.swapped.emplace());
  if (name == "cluster_m") return take_cluster(name, text, &ClusterShape::m, o.cluster);
  if (name == "cluster_n") return take_cluster(name, text, &ClusterShape::n, o.cluster);
  if (name == "cluster_k") return take_cluster(name, text, &ClusterShape::k, o.cluster);
  if (name == "workspace_limit") {
    const Result<i64> number = number_of(name, text, std::numeric_limits<i64>::max());
    if (!number) return number.error();
    o.workspace_limit = *number;
    return {};
  }
  constexpr Choice<std::optional<int> PlanOverrides::*> kNumbers[] = {
      {"tile_m", &PlanOverrides::tile_m},
      {"tile_n", &PlanOverrides::tile_n},
      {"stages", &PlanOverrides::stages},
      {"warps", &PlanOverrides::warps},
      {"raster_group", &PlanOverrides::raster_group},
      {"clusters", &PlanOverrides::clusters},
      {"streamed", &PlanOverrides::streamed},
      {"splits", &PlanOverrides::splits}};
  std::string known =
      "schedule, store, raster, combine, numbering, ignore_records, swapped, cluster_m, cluster_n, "
      "cluster_k, workspace_limit";
  for (const auto& [known_name, member] : kNumbers) {
    if (name == known_name) return take(name, text, o.*member);
    known += std::string(", ") + known_name;
  }
  return unknown(name, known);
}

Result<void> set(packed::Overrides& o, std::string_view name, std::string_view text) {
  using packed::Overrides;
  if (name == "ignore_records") return take_switch(name, text, o.ignore_records);
  constexpr Choice<std::optional<int> Overrides::*> kNumbers[] = {{"token_blocks", &Overrides::token_blocks},
                                                                  {"row_blocks", &Overrides::row_blocks},
                                                                  {"warps", &Overrides::warps},
                                                                  {"stages", &Overrides::stages},
                                                                  {"parts", &Overrides::parts},
                                                                  {"ctas", &Overrides::ctas},
                                                                  {"tokens", &Overrides::tokens},
                                                                  {"cluster_n", &Overrides::cluster_n},
                                                                  {"cluster_k", &Overrides::cluster_k},
                                                                  {"x_stages", &Overrides::x_stages},
                                                                  {"w_stages", &Overrides::w_stages},
                                                                  {"tail_parts", &Overrides::tail_parts},
                                                                  {"strips", &Overrides::strips},
                                                                  {"k_groups", &Overrides::k_groups}};
  std::string known = "ignore_records";
  for (const auto& [known_name, member] : kNumbers) {
    if (name == known_name) return take(name, text, o.*member);
    known += std::string(", ") + known_name;
  }
  return unknown(name, known);
}

}  // namespace

Options options_of(const sluice_options* given) {
  Options options = options_from_environment();
  if (given == nullptr) return options;
  if (given->cache_dir != nullptr) options.cache_dir = given->cache_dir;
  if (given->nvrtc_path != nullptr) options.nvrtc_path = given->nvrtc_path;
  if (given->records_dir != nullptr) options.records_dir = given->records_dir;
  if (given->cache_read_only >= 0) options.cache_read_only = given->cache_read_only != 0;
  if (given->jobs >= 0) options.jobs = given->jobs;
  return options;
}

template <class Overrides>
Result<Overrides> overrides_of(const char* choices) {
  Overrides overrides;
  std::string_view rest = choices != nullptr ? choices : "";
  constexpr std::string_view kBetween = ", \t\n";
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(kBetween), rest.size()));
    if (rest.empty()) return overrides;
    const std::string_view item = rest.substr(0, rest.find_first_of(kBetween));
    rest.remove_prefix(item.size());
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos)
      return Error{ErrorCode::invalid_argument,
                   "choices hold " + in_quotes(item) + ": each must be a name, = and a value, as splits=4"};
    if (Result<void> taken = set(overrides, item.substr(0, equals), item.substr(equals + 1)); !taken)
      return taken.error();
  }
}

template Result<PlanOverrides> overrides_of<PlanOverrides>(const char*);
template Result<packed::Overrides> overrides_of<packed::Overrides>(const char*);

}  // namespace sluice::c_api
