// SPDX-License-Identifier: Apache-2.0
// Prints a caller's text in messages: flags, lines of files, JSON fields, names, paths. A message stays one
// line of bounded length, and no byte of it acts as a terminal command. Every message of library, tool and C
// interface that repeats such text uses it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr std::size_t kMostQuoted = 120;     // bytes of a caller's text in a message
inline constexpr std::size_t kMostMessage = 16384;  // bytes of a message; a compiler's log is the longest

/// Escapes control characters, newlines, NUL, backslashes, marks of text direction, and bytes that are not
/// UTF-8: \n, \t, \x1b. Text longer than `most` bytes is cut, and its length given.
std::string escaped(std::string_view text, std::size_t most = kMostQuoted);

/// Escapes as escaped(), within double quotes: "16x16". Quotes inside are escaped.
std::string in_quotes(std::string_view text, std::size_t most = kMostQuoted);

/// Makes another library's message one line. It may repeat a caller's text. Backslashes stay, since parts may
/// be escaped already.
std::string one_line(std::string_view message);

/// Escapes a finished message but keeps its lines, tabs and backslashes. The last guard before stderr and C;
/// a caller's text is escaped earlier, where the message is made.
std::string printable(std::string_view message);

}  // namespace sluice
