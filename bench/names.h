// SPDX-License-Identifier: Apache-2.0
// Finds enumerators by name, for flags and problem files.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include <sluice/tools.h>

#include "bench/errors.h"

namespace sluice::bench {

inline Error no_such_name(const std::string& what, const std::string& text, const std::string& names) {
  return bad_argument("{} {} is not one of: {}", what, in_quotes(text), names);
}

/// Translates torch's names of types: "float8_e4m3fn" to "e4m3". Returns other text unchanged.
inline std::string_view type_name(std::string_view text) {
  constexpr struct {
    std::string_view theirs, ours;
  } kNames[] = {{"bfloat16", "bf16"}, {"float16", "fp16"},       {"half", "fp16"},       {"float32", "fp32"},
                {"float", "fp32"},    {"float8_e4m3fn", "e4m3"}, {"e4m3fn", "e4m3"},     {"fp8", "e4m3"},
                {"fp8_e4m3", "e4m3"}, {"fp8_e5m2", "e5m2"},      {"float8_e5m2", "e5m2"}};
  constexpr std::string_view kModule = "torch.";
  const std::string_view name = text.starts_with(kModule) ? text.substr(kModule.size()) : text;
  for (const auto& [theirs, ours] : kNames)
    if (name == theirs) return ours;
  return enumerator_named<DType>(name) ? name : text;
}

/// Returns the enumerator called `text`; for types, torch's names are valid too. Error invalid_argument: the
/// message has `what`, the text and all valid names.
template <Enumerated T>
Result<T> parse_name(const std::string& what, const std::string& text) {
  std::string_view name = text;
  if constexpr (std::is_same_v<T, DType>) name = type_name(text);
  if (const std::optional<T> found = enumerator_named<T>(name)) return *found;
  return no_such_name(what, text, names_of<T>());
}

/// Returns the element of `all` with this name.
template <class T>
Result<T> parse_name(const std::string& what, const std::string& text, std::initializer_list<T> all) {
  std::string names;
  for (const T value : all) {
    if (text == name_of(value)) return value;
    names += (names.empty() ? "" : ", ") + std::string(name_of(value));
  }
  return no_such_name(what, text, names);
}

}  // namespace sluice::bench
