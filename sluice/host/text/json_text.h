// SPDX-License-Identifier: Apache-2.0
// JSON of files that anybody may have written, with bounds: on its size, on its depth (the JSON library
// recurses as deep as its input does), and no key twice in an object, of which all but the last would be
// dropped unsaid. Called by the parsers of tuning records and of problem files. Nothing of it throws.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include <sluice/result.h>

namespace sluice {

using Json = nlohmann::ordered_json;

inline constexpr int kMostJsonDepth = 8;                              // an array of objects is 2
inline constexpr std::size_t kMostJsonBytes = std::size_t{16} << 20;  // 20 times the shipped records

/// Error invalid_argument: what is wrong with the text, and at which byte; the caller adds where it stands
/// and the remedy.
Result<Json> parse_json_text(std::string_view text);

/// `text` without the byte order mark that some editors put in front of UTF-8. A second one is text.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace sluice
