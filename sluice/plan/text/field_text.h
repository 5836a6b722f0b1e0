// SPDX-License-Identifier: Apache-2.0
// Converts fields to text and back, with the tables of fields.h.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include <sluice/plan/text/fields.h>
#include <sluice/result.h>

namespace sluice {

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <class Owner, class Member>
bool is_shown(const Field<Owner, Member>& row, const Member& value) {
  return row.shown == Shown::always || !(value == Owner{}.*row.member);
}

/// Returns a C++ initialiser with all names qualified: "128", "sluice::DType::bf16", "{.m = 128, .n = 64, .k
/// = 64}". JIT units, cache keys, logs and tests use this text.
template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (Enumerated<T>) {
    return std::string("sluice::") + Enumeration<T>::kType + "::" + name_of(value);
  } else if constexpr (HasFields<T>) {
    std::string body;
    for_each_field(value, [&](const auto& row, const auto& member) {
      if (is_shown(row, member))
        body += (body.empty() ? "." : ", .") + std::string(row.name) + " = " + text_of(member);
    });
    return "{" + body + "}";
  } else {
    return std::to_string(value);
  }
}

/// Sets field `name` from text: a decimal integer, true or false, or an enumerator's name. Nested fields are
/// named `a.type`, or `cluster_m`. Error invalid_argument: the name is unknown, or the text breaks a rule;
/// the message says which. Ranges are checked later, by plan().
template <HasFields T>
Result<void> set_field(T& value, std::string_view name, std::string_view text);

/// Sets fields from a text such as "tile_m=128, tile_n=256 schedule=ping_pong", separated by commas, blanks
/// or both.
template <HasFields T>
Result<T> from_text(std::string_view text);

}  // namespace sluice
