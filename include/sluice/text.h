// SPDX-License-Identifier: Apache-2.0
// Prints a caller's text in messages: flags, lines of files, JSON fields, names, paths. A message stays one
// line of bounded length, and none of its bytes acts as a terminal command. Wraps lines, too. Every message
// of the library, the tool and the C interface that repeats such text uses these functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sluice {

/// The library's version, "0.3.0".
std::string library_version();

inline constexpr std::size_t kMostQuoted = 120;  // in bytes, of a caller's text in a message
// In bytes, of a whole message; a compiler's log is the longest.
inline constexpr std::size_t kMostMessage = 16384;

/// Escapes control characters, newlines, NUL, backslashes, marks of text direction, and bytes that are not
/// UTF-8: \n, \t, \x1b. Text longer than `most` bytes is cut, and its length is appended.
std::string escaped(std::string_view text, std::size_t most = kMostQuoted);

/// Escapes as escaped() does, and adds double quotes: "16x16". Quotes inside are escaped.
std::string in_quotes(std::string_view text, std::size_t most = kMostQuoted);

/// Turns another library's message, which may repeat a caller's text, into one line. Backslashes stay,
/// because parts may already be escaped.
std::string one_line(std::string_view message);

/// Escapes a finished message, but keeps its line breaks, tabs and backslashes. The last protection before
/// stderr and the C interface; a caller's text is escaped earlier, where the message is made.
std::string printable(std::string_view message);

inline constexpr std::size_t kMostColumns = 110;  // upper limit of the length of a printed line

/// Breaks lines at blanks so that each has at most kMostColumns bytes, if its words permit. The first line is
/// assumed to follow `begun` bytes; added lines begin with `indent` blanks.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t begun = 0);

/// "gpu        NVIDIA H200, 132 SMs\n": says which GPU a plan is for.
std::string gpu_line(const std::string& name, int sm_count);

}  // namespace sluice
