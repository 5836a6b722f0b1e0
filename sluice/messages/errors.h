// SPDX-License-Identifier: Apache-2.0
// Errors with formatted messages, for bench/, cli/ and lab/. A folder of its own, since cli/ includes no
// bench/.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include <sluice/result.h>

namespace sluice {

template <class... T>
Error error_of(ErrorCode code, fmt::format_string<T...> text, T&&... values) {
  return {code, fmt::format(text, std::forward<T>(values)...)};
}
template <class... T>
Error bad_argument(fmt::format_string<T...> text, T&&... values) {
  return error_of(ErrorCode::invalid_argument, text, std::forward<T>(values)...);
}

/// Returns `error` with `where` put before its message.
inline Error within(std::string_view where, const Error& error) {
  return error_of(error.code, "{}: {}", where, error.message);
}

}  // namespace sluice
