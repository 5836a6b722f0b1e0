// SPDX-License-Identifier: Apache-2.0
// Parses text of flags, problem files and models: sizes such as 4096x4096x4096, and enumerators by name.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <sluice/names.h>
#include <sluice/result.h>
#include <sluice/text.h>

namespace sluice::bench {

/// Parses "128x256" into {128, 256}: `count` numbers, all >= 0. The error message contains the value's name
/// `what` and the example `like`.
Result<std::vector<i64>> parse_sizes(const std::string& text, int count, const std::string& what,
                                     const std::string& like);
/// As parse_sizes, for numbers up to 2^31-1.
Result<std::vector<int>> parse_int_sizes(const std::string& text, int count, const std::string& what,
                                         const std::string& like);

inline Error no_such_name(const std::string& what, const std::string& text, const std::string& names) {
  return {ErrorCode::invalid_argument, what + " " + in_quotes(text) + " is not one of: " + names};
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
