// SPDX-License-Identifier: Apache-2.0
// The linker's build ID of a shared library: equal builds have equal IDs on every machine. Reading it takes
// 20 microseconds and does not load the library.
#pragma once

#include <string>

namespace sluice {

/// Returns the first 12 hexadecimal digits of an ELF file's GNU build ID; "" if there is none near the
/// beginning.
std::string build_id_of(const std::string& file);

}  // namespace sluice
