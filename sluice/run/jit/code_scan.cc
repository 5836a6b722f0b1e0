// SPDX-License-Identifier: Apache-2.0
// Reads the few fields of ELF64 that locate the code: the section table, and each section's flags, offset and
// size.
#include <sluice/run/jit/code_scan.h>

#include <cstring>
#include <optional>

namespace sluice {
namespace {

// Offsets in the file header.
constexpr u64 kSectionTableAt = 0x28, kSectionSizeAt = 0x3a, kSectionCountAt = 0x3c;
constexpr u64 kFlagsAt = 0x08, kOffsetAt = 0x18, kSizeAt = 0x20;  // offsets in a section header
constexpr u64 kExecutable = 4;
constexpr u64 kInstructionBytes = 16, kOpcodeMask = 0xfff;

template <class T>
std::optional<T> read(std::span<const char> bytes, u64 at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool section_holds(std::span<const char> bytes, u64 offset, u64 size, Opcode opcode) {
  if (offset > bytes.size() || bytes.size() - offset < size) return false;
  for (u64 at = 0; at + kInstructionBytes <= size; at += kInstructionBytes)
    if ((*read<u64>(bytes, offset + at) & kOpcodeMask) == static_cast<u64>(opcode)) return true;
  return false;
}

}  // namespace

bool holds(std::span<const char> cubin, Opcode opcode) {
  if (cubin.size() < 4 || std::memcmp(cubin.data(),
                                      "\x7f"
                                      "ELF",
                                      4) != 0)
    return false;
  const auto table = read<u64>(cubin, kSectionTableAt);
  const auto step = read<u16>(cubin, kSectionSizeAt), count = read<u16>(cubin, kSectionCountAt);
  if (!table || !step || !count) return false;
  for (u64 i = 0; i < *count; ++i) {
    const u64 section = *table + i * *step;
    const auto flags = read<u64>(cubin, section + kFlagsAt);
    const auto offset = read<u64>(cubin, section + kOffsetAt), size = read<u64>(cubin, section + kSizeAt);
    if (!flags || !offset || !size) return false;
    if ((*flags & kExecutable) != 0 && section_holds(cubin, *offset, *size, opcode)) return true;
  }
  return false;
}

}  // namespace sluice
