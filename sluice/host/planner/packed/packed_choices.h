// SPDX-License-Identifier: Apache-2.0
// What the planner chooses of each packed kernel's configuration, by name. A kernel has one function here:
// all that tuning records, and the merging of a choice with what the problem says, need to know of it. Names
// are those of packed::Overrides. The order is that of the fields in a record.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <sluice/packed.h>

namespace sluice::packed {

/// `Config` is `Kind`, const or not.
template <class Config, class Kind>
concept Is = std::is_same_v<std::remove_const_t<Config>, Kind>;

/// visit(name, value) for every choice, or visit(name, value, usual) for one that records leave out where it
/// is as usual: it is younger than they are.
template <Is<NarrowConfig> Config, class Visit>
void for_each_choice(Config& c, const Visit& visit) {
  visit("token_blocks", c.token_blocks);
  visit("row_blocks", c.row_blocks);
  visit("warps", c.warps);
  visit("stages", c.stages);
  visit("parts", c.parts);
  visit("ctas", c.ctas);
}
constexpr const char* kernel_of(const NarrowConfig&) {
  return "narrow";
}

template <Is<WideConfig> Config, class Visit>
void for_each_choice(Config& c, const Visit& visit) {
  visit("tokens", c.tokens);
  visit("cluster_n", c.cluster_n);
  visit("cluster_k", c.cluster_k);
  visit("x_stages", c.x_stages);
  visit("w_stages", c.w_stages);
  visit("tail_parts", c.tail_parts, 1);
}
constexpr const char* kernel_of(const WideConfig&) {
  return "wide";
}

template <Is<StripConfig> Config, class Visit>
void for_each_choice(Config& c, const Visit& visit) {
  visit("tokens", c.tokens);
  visit("strips", c.strips);
  visit("k_groups", c.k_groups);
  visit("parts", c.parts);
  visit("stages", c.stages);
}
constexpr const char* kernel_of(const StripConfig&) {
  return "strip";
}

/// `config` with the choices of `chosen`; formats and epilogue stay its own.
template <class Config>
Config with_choices(Config config, const Config& chosen) {
  std::vector<int> values;
  for_each_choice(chosen, [&](const char*, int value, auto...) { values.push_back(value); });
  size_t next = 0;
  for_each_choice(config, [&](const char*, int& value, auto...) { value = values[next++]; });
  return config;
}

/// The choices alone: every format as in a new config.
inline PackedConfig choices_of(const PackedConfig& config) {
  return std::visit(
      []<class Config>(const Config& chosen) { return PackedConfig(with_choices(Config{}, chosen)); },
      config);
}

/// All kernels, a default config each.
template <std::size_t... kIndex>
std::vector<PackedConfig> all_kernels(std::index_sequence<kIndex...>) {
  return {PackedConfig(std::in_place_index<kIndex>)...};
}
inline std::vector<PackedConfig> all_kernels() {
  return all_kernels(std::make_index_sequence<std::variant_size_v<PackedConfig>>());
}

inline const char* kernel_of(const PackedConfig& config) {
  return std::visit([](const auto& c) { return kernel_of(c); }, config);
}

}  // namespace sluice::packed
