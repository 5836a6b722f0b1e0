// SPDX-License-Identifier: Apache-2.0
// Parses JSON from untrusted files, with bounds on size and depth (the JSON library recurses as deep as its
// input). Rejects duplicate keys, since the library silently keeps only the last. Called by the parsers of
// tuning records and problem files. Nothing throws.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include <sluice/result.h>

namespace sluice {

using Json = nlohmann::ordered_json;

inline constexpr int kMostJsonDepth = 8;                              // an array of objects is 2
inline constexpr std::size_t kMostJsonBytes = std::size_t{16} << 20;  // 20 times the shipped records

/// Error invalid_argument: the fault and its byte; the caller adds the place and the remedy.
Result<Json> parse_json_text(std::string_view text);

/// Drops the byte order mark that some editors put before UTF-8. A second one is text.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace sluice
