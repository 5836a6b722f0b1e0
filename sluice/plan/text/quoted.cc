// SPDX-License-Identifier: Apache-2.0
// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing past U+10FFFF.
#include <sluice/text.h>

#include <sluice/spec/base.h>

namespace sluice {
namespace {

struct Style {
  bool quotes = false;
  bool keeps_backslashes = false;
  bool keeps_lines = false;
};

u8 byte_at(std::string_view text, std::size_t at) {
  return static_cast<u8>(text[at]);
}

struct Character {
  std::size_t bytes = 0;  // 0: not UTF-8
  u32 code = 0;
};

Character character_at(std::string_view text, std::size_t at) {
  const u8 first = byte_at(text, at);
  if (first < 0x80) return {1, first};
  const std::size_t bytes = first >= 0xf0 && first < 0xf5   ? 4
                            : first >= 0xe0 && first < 0xf0 ? 3
                            : first >= 0xc2 && first < 0xe0 ? 2
                                                            : 0;
  if (bytes == 0 || at + bytes > text.size()) return {};
  u32 code = first & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const u8 next = byte_at(text, at + i);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3fu);
  }
  constexpr u32 kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < kLeast[bytes] || surrogate || code > 0x10ffff ? Character{} : Character{bytes, code};
}

/// Returns whether the character is C0, DEL, C1, a line separator, or a mark that is invisible or reorders
/// text.
bool is_control(u32 code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200b && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
}

std::string hex_escape(std::string_view bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    ((text += "\\x") += kDigits[byte_at(bytes, i) >> 4]) += kDigits[byte_at(bytes, i) & 15];
  return text;
}

/// Prints one character. `bytes`: its bytes, at least one.
std::string shown(std::string_view bytes, const Character& c, Style style) {
  if (c.bytes == 0) return hex_escape(bytes);
  if (style.keeps_lines && (c.code == '\n' || c.code == '\t')) return std::string(bytes);
  if (style.keeps_backslashes && c.code == '\\') return std::string(bytes);
  switch (c.code) {
    case '\n': return "\\n";
    case '\t': return "\\t";
    case '\r': return "\\r";
    case '\\': return "\\\\";
    case '"': return style.quotes ? "\\\"" : "\"";
    default: return is_control(c.code) ? hex_escape(bytes) : std::string(bytes);
  }
}

/// Prints whole characters from the first `most` bytes. `end`: set to the offset where it stopped.
std::string shown_part(std::string_view text, std::size_t most, Style style, std::size_t& end) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const Character c = character_at(text, at);
    const std::size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    if (at + bytes > most) break;
    out += shown(text.substr(at, bytes), c, style);
    at += bytes;
  }
  end = at;
  return out;
}

std::string with_length(std::string text, std::string_view whole, std::size_t end) {
  if (end == whole.size()) return text;
  return std::move(text) + " (cut: it has " + std::to_string(whole.size()) + " bytes)";
}

std::string cut(std::string_view text, std::size_t most, Style style) {
  std::size_t end = 0;
  std::string part = shown_part(text, most, style, end);
  if (end < text.size()) part += "...";
  return with_length(std::move(part), text, end);
}

}  // namespace

std::string escaped(std::string_view text, std::size_t most) {
  return cut(text, most, {});
}

std::string in_quotes(std::string_view text, std::size_t most) {
  std::size_t end = 0;
  std::string part = '"' + shown_part(text, most, {.quotes = true}, end);
  part += end < text.size() ? "...\"" : "\"";
  return with_length(std::move(part), text, end);
}

std::string one_line(std::string_view message) {
  return cut(message, kMostMessage / 16, {.keeps_backslashes = true});
}

std::string printable(std::string_view message) {
  return cut(message, kMostMessage, {.keeps_backslashes = true, .keeps_lines = true});
}

}  // namespace sluice
