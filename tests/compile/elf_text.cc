// SPDX-License-Identifier: Apache-2.0
#include "tests/compile/elf_text.h"

#include <elf.h>

#include <cstring>
#include <optional>

namespace sluice::test {
namespace {

constexpr u64 kInstructionBytes = 16;

/// Reads a T at `offset`; returns nothing if the file ends before that.
template <class T>
std::optional<T> read(std::string_view file, u64 offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

std::optional<std::string_view> contents(std::string_view file, const Elf64_Shdr& section) {
  if (section.sh_offset > file.size() || file.size() - section.sh_offset < section.sh_size)
    return std::nullopt;
  return file.substr(section.sh_offset, section.sh_size);
}

Error damaged(const char* what) {
  return Error{ErrorCode::internal, std::string("the cubin is no whole ELF file: ") + what};
}

/// Returns the contents of the section called `name`.
Result<std::string_view> section_of(std::string_view cubin, const std::string& name) {
  const auto header = read<Elf64_Ehdr>(cubin, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return damaged("no ELF header");
  const auto section = [&](u64 i) {
    return read<Elf64_Shdr>(cubin, header->e_shoff + i * sizeof(Elf64_Shdr));
  };
  const auto name_section = section(header->e_shstrndx);
  const auto names = name_section ? contents(cubin, *name_section) : std::nullopt;
  if (!names) return damaged("no section names");

  for (int i = 0; i < header->e_shnum; ++i) {
    const auto candidate = section(i);
    if (!candidate || candidate->sh_name >= names->size()) return damaged("a section header is cut off");
    const std::string_view its_name = names->substr(candidate->sh_name);
    if (its_name.substr(0, its_name.find('\0')) != name) continue;
    const auto found = contents(cubin, *candidate);
    if (!found) return damaged("a section is cut off");
    return *found;
  }
  return damaged(("no section " + name).c_str());
}

}  // namespace

Result<std::vector<Instruction>> instructions_of(std::string_view cubin, const std::string& kernel) {
  const Result<std::string_view> text = section_of(cubin, ".text." + kernel);
  if (!text) return text.error();
  if (text->size() % kInstructionBytes != 0) return damaged("the text is cut off");
  std::vector<Instruction> instructions;
  for (u64 at = 0; at < text->size(); at += kInstructionBytes)
    instructions.push_back({*read<u64>(*text, at), *read<u64>(*text, at + 8)});
  return instructions;
}

Result<u64> launch_constant_bytes(std::string_view cubin, const std::string& kernel) {
  const Result<std::string_view> constants = section_of(cubin, ".nv.constant0." + kernel);
  if (!constants) return constants.error();
  return constants->size();
}

}  // namespace sluice::test
