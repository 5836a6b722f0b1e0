// SPDX-License-Identifier: Apache-2.0
// The one printer of text that a caller gave: flags, lines of files, fields of JSON, names, paths. A message
// stays one line of bounded length, and no byte of it reaches a terminal as a command. Used by every message
// of the library, the tool and the C interface that repeats such text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr std::size_t kMostQuoted = 120;     // bytes of a caller's text in a message
inline constexpr std::size_t kMostMessage = 16384;  // bytes of a message; a compiler's log is the longest

/// `text` with control characters, newlines, NUL, backslashes, marks that turn the direction of text, and
/// bytes that are no UTF-8 as escapes: \n, \t, \x1b. Longer than `most` bytes: cut, with its length told.
std::string escaped(std::string_view text, std::size_t most = kMostQuoted);

/// The same between double quotes, those in it escaped: "16x16".
std::string in_quotes(std::string_view text, std::size_t most = kMostQuoted);

/// A message of another library that may repeat a caller's text: one line; its backslashes stay, for parts of
/// it may be escaped already.
std::string one_line(std::string_view message);

/// A finished message: the same escapes, but its own lines, tabs and backslashes stay. The last guard in
/// front of stderr and of C; what a caller gave is escaped where the message is made.
std::string printable(std::string_view message);

}  // namespace sluice
