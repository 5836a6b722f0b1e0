// SPDX-License-Identifier: Apache-2.0
// The fields of a packed kernel's configuration that the planner chooses: those rows of text/fields.h that an
// override can set. Tuning records store them in the table's order. All other fields follow from the problem.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <sluice/host/text/fields.h>

namespace sluice::packed {

/// True if `Config` is `Kind`, const or not.
template <class Config, class Kind>
concept Is = std::is_same_v<std::remove_const_t<Config>, Kind>;

/// Calls visit(row, value) for every field that the planner chooses.
template <HasFields Config, class Visit>
void for_each_choice(Config& c, const Visit& visit) {
  for_each_field(c, [&](const auto& row, auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, int>)
      if (row.overrule != nullptr) visit(row, value);
  });
}

template <HasFields Config>
constexpr const char* kernel_of(const Config&) {
  return FieldsOf<Config>::kKernel;
}
inline const char* kernel_of(const PackedConfig& config) {
  return std::visit([](const auto& c) { return kernel_of(c); }, config);
}

/// Returns `config` with the chosen fields of `chosen`. Formats and epilogue stay those of `config`.
template <HasFields Config>
Config with_choices(Config config, const Config& chosen) {
  for_each_choice(config, [&](const auto& row, int& value) { value = chosen.*row.member; });
  return config;
}

/// Returns a configuration with only the chosen fields of `config`; all others have their defaults.
inline PackedConfig choices_of(const PackedConfig& config) {
  return std::visit(
      []<class Config>(const Config& chosen) { return PackedConfig(with_choices(Config{}, chosen)); },
      config);
}

/// Returns one default configuration per kind of kernel.
template <std::size_t... kIndex>
std::vector<PackedConfig> all_kernels(std::index_sequence<kIndex...>) {
  return {PackedConfig(std::in_place_index<kIndex>)...};
}
inline std::vector<PackedConfig> all_kernels() {
  return all_kernels(std::make_index_sequence<std::variant_size_v<PackedConfig>>());
}

}  // namespace sluice::packed
