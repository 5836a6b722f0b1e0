// SPDX-License-Identifier: Apache-2.0
#include <sluice/run/jit/cache_key.h>

#include <sluice/run/jit/compiler.h>
#include <sluice/run/jit/embedded_files.h>
#include <sluice/run/jit/fork_gate.h>
#include <sluice/run/jit/hash.h>

namespace sluice {
namespace {

constexpr std::string_view kSuffix = ".cubin";
constexpr char kNameSpace = '_';  // replaces the blank in "NVRTC 13.0"

/// Returns one digest of all headers: they change together, and only the compiler knows which of them a unit
/// includes.
const std::string& headers_digest() {
  const ForkGate no_fork;  // guards the initialisation of the static
  static const std::string text = [] {
    std::string all;
    for (const EmbeddedFile& file : embedded_files())
      all += file.path + (" " + hex(digest(file.text))) + "\n";
    return hex(digest(all));
  }();
  return text;
}

}  // namespace

std::string source_key(const std::string& unit) {
  std::string text = "headers " + headers_digest() + "\noptions";
  for (const char* option : compile_options()) (text += ' ') += option;
  return text + "\n" + unit;
}

std::string full_key(const std::string& source_key, const std::string& compiler) {
  return "compiler " + compiler + "\n" + source_key;
}

std::string any_compiler_prefix(const std::string& source_key) {
  return hex(digest(source_key)) + ".";
}

std::string entry_name(const std::string& source_key, const std::string& compiler) {
  std::string tag = compiler;
  for (char& c : tag)
    if (c == ' ') c = kNameSpace;
  return any_compiler_prefix(source_key) + tag + std::string(kSuffix);
}

std::string compiler_of(const std::string& entry_name) {
  const size_t begin = entry_name.find('.') + 1;
  if (begin == 0 || !entry_name.ends_with(kSuffix) || entry_name.size() < begin + kSuffix.size()) return {};
  std::string compiler = entry_name.substr(begin, entry_name.size() - kSuffix.size() - begin);
  for (char& c : compiler)
    if (c == kNameSpace) c = ' ';
  return compiler;
}

bool is_older_name(const std::string& x, const std::string& y) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < x.size() && j < y.size()) {
    if (!is_digit(x[i]) || !is_digit(y[j])) {
      if (x[i] != y[j]) return x[i] < y[j];
      ++i, ++j;
      continue;
    }
    const auto number = [&](const std::string& text, std::size_t& at) {
      while (at + 1 < text.size() && text[at] == '0' && is_digit(text[at + 1])) ++at;
      const std::size_t begin = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      return text.substr(begin, at - begin);
    };
    const std::string a = number(x, i), b = number(y, j);
    if (a.size() != b.size()) return a.size() < b.size();
    if (a != b) return a < b;
  }
  return x.size() - i < y.size() - j;
}

}  // namespace sluice
