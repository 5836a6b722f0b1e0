// SPDX-License-Identifier: Apache-2.0
// Parses JSON from untrusted files, with bounds on size and depth (the JSON library recurses as deep as its
// input). Rejects duplicate keys, of which the library would silently keep only the last. Called by the
// parsers of tuning records and problem files. Throws nothing.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include <sluice/result.h>

namespace sluice {

using Json = nlohmann::ordered_json;

inline constexpr int kMostJsonDepth = 8;  // the depth of an array of objects is 2
// 20 times the size of the shipped records
inline constexpr std::size_t kMostJsonBytes = std::size_t{16} << 20;

/// Error invalid_argument: the fault and its byte offset. The caller adds the file's name and the remedy.
Result<Json> parse_json_text(std::string_view text);

/// Removes the byte order mark that some editors put before UTF-8. A second one counts as text.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace sluice
