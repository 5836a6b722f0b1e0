// SPDX-License-Identifier: Apache-2.0
// Enumerators by name, for flags and problem files.
#pragma once

#include <initializer_list>
#include <string>

#include <sluice/tools.h>

#include "bench/errors.h"

namespace sluice::bench {

inline Error no_such_name(const std::string& what, const std::string& text, const std::string& names) {
  return bad_argument("{} {} is not one of: {}", what, in_quotes(text), names);
}

/// The enumerator called `text`. Error invalid_argument: `what`, the text, and the names that there are.
template <Enumerated T>
Result<T> parse_name(const std::string& what, const std::string& text) {
  if (const std::optional<T> found = enumerator_named<T>(text)) return *found;
  return no_such_name(what, text, names_of<T>());
}

/// One of `all`, by name.
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
