// SPDX-License-Identifier: Apache-2.0
// The linker's mark of a shared library: equal for equal builds on every machine, another one for another
// build. Reading it takes 20 microseconds and loads nothing.
#pragma once

#include <string>

namespace sluice {

/// The first 12 hexadecimal digits of the GNU build ID of an ELF file; "" if it has none near its beginning.
std::string build_id_of(const std::string& file);

}  // namespace sluice
