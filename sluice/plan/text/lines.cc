// SPDX-License-Identifier: Apache-2.0
// Breaks at the last blank that fits. A word longer than a line stays whole.
#include <sluice/plan/text/lines.h>

#include <algorithm>

namespace sluice {
namespace {

/// Bytes of the first line of `text`: up to a newline, or to the last blank within `most`, or to the first.
std::size_t bytes_that_fit(std::string_view text, std::size_t most) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  if (end <= most) return end;
  std::size_t blank = text.rfind(' ', most);
  if (blank == std::string_view::npos || text.find_first_not_of(' ') > blank) blank = text.find(' ', most);
  return std::min(blank, end);
}

}  // namespace

std::string hex(const void* pointer) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::size_t>(pointer)));
  return text;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t begun) {
  std::string out;
  std::size_t used = begun;
  while (true) {
    const std::size_t count = bytes_that_fit(text, kMostColumns > used ? kMostColumns - used : 0);
    out += text.substr(0, count);
    if (count == text.size()) return out;
    const bool ended = text[count] == '\n';
    text.remove_prefix(count + 1);
    out += '\n';
    used = 0;
    if (ended) continue;
    out.append(indent, ' ');
    used = indent;
  }
}

std::string line(const char* name, const std::string& value) {
  constexpr std::size_t kNameColumns = 11;
  std::string out = name;
  out.resize(kNameColumns, ' ');
  return out + wrapped(value, kNameColumns, kNameColumns) + "\n";
}

std::string gpu_line(const std::string& name, int sm_count) {
  return line("gpu", name + ", " + std::to_string(sm_count) + " SMs");
}

std::string nothing_line() {
  return line("kernel", "none: D has no elements, so there is nothing to launch");
}

std::string size_text(const Problem& p) {
  const std::string size =
      "m " + std::to_string(p.m) + " n " + std::to_string(p.n) + " k " + std::to_string(p.k);
  if (reads_table(p))
    return size + " in " + std::to_string(p.batch) + " groups by " + name_of(p.groups.kind) + " pitch " +
           std::to_string(p.groups.pitch);
  return p.batch == 1 ? size : size + " batch " + std::to_string(p.batch);
}

}  // namespace sluice
