// SPDX-License-Identifier: Apache-2.0
// Reads the program headers and notes of the System V ABI (elf(5)). Every offset is checked against the
// number of bytes read.
#include <sluice/run/jit/build_id.h>

#include <elf.h>

#include <cstring>
#include <fstream>
#include <string_view>

namespace sluice {
namespace {

constexpr std::size_t kHead = 1 << 16;  // linkers put the notes in the first page
constexpr std::size_t kDigits = 12;

/// Copies a T out of `bytes`; returns false if it does not fit.
template <class T>
bool take(std::string_view bytes, std::size_t at, T& value) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return false;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return true;
}

std::string hex_of(std::string_view bytes) {
  constexpr const char* kHex = "0123456789abcdef";
  std::string text;
  for (const char c : bytes)
    (text += kHex[static_cast<unsigned char>(c) >> 4]) += kHex[static_cast<unsigned char>(c) & 15];
  return text.substr(0, kDigits);
}

std::string id_in(std::string_view notes) {
  constexpr std::size_t kAlign = 4;
  const auto padded = [](std::size_t size) { return (size + kAlign - 1) / kAlign * kAlign; };
  Elf64_Nhdr note{};
  for (std::size_t at = 0; take(notes, at, note);) {
    const std::size_t name = at + sizeof(note), content = name + padded(note.n_namesz);
    if (content > notes.size() || note.n_descsz > notes.size() - content) return {};
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(name, note.n_namesz) == std::string_view("GNU", 4))
      return hex_of(notes.substr(content, note.n_descsz));
    at = content + padded(note.n_descsz);
  }
  return {};
}

}  // namespace

std::string build_id_of(const std::string& file) {
  std::string head(kHead, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(stream.gcount()));
  Elf64_Ehdr elf{};
  if (!take(head, 0, elf) || std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0) return {};
  for (std::size_t i = 0; i < elf.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (elf.e_phoff > head.size() || !take(head, elf.e_phoff + i * sizeof(segment), segment)) return {};
    if (segment.p_type != PT_NOTE || segment.p_offset > head.size()) continue;
    if (std::string id = id_in(std::string_view(head).substr(segment.p_offset, segment.p_filesz));
        !id.empty())
      return id;
  }
  return {};
}

}  // namespace sluice
