// SPDX-License-Identifier: Apache-2.0
// An image that replaces a compiled kernel in tests with a fake driver or compiler.
#pragma once

#include <cstring>
#include <string>

#include <sluice/run/jit/code_scan.h>

namespace sluice::fake {

inline constexpr const char* kFakeImage = "cubin of ";
/// Size of the fake ELF file: a header, one section and one instruction, as sluice/run/jit/code_scan.h reads
/// them.
inline constexpr size_t kFakeElfBytes = 64 + 64 + 16;

/// Returns a fake cubin. Its code contains the wait for prerequisites if the unit's text does.
inline std::string fake_image(const std::string& unit) {
  std::string elf(kFakeElfBytes, '\0');
  const auto put = [&](size_t at, u64 value, size_t bytes) { std::memcpy(elf.data() + at, &value, bytes); };
  put(0, 0x464c457f, 4);  // "\x7f" "ELF"
  put(0x28, 64, 8);       // offset of the section table, its entry size and number of entries
  put(0x3a, 64, 2);
  put(0x3c, 1, 2);
  put(64 + 0x08, 4, 8);  // executable flag, offset and size
  put(64 + 0x18, 128, 8);
  put(64 + 0x20, 16, 8);
  bool waits = unit.find("sum_parts") != std::string::npos;
  for (const char* text : {"Wait::first", "Wait::weights_first"})
    waits = waits || unit.find(text) != std::string::npos;
  if (waits) put(128, static_cast<u64>(Opcode::wait_prerequisites), 8);
  return elf + kFakeImage + unit;
}

}  // namespace sluice::fake
