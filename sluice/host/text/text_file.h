// SPDX-License-Identifier: Apache-2.0
// Reads a whole file up to a bound: a device or a pipe may have no end.
#pragma once

#include <cstddef>
#include <string>

#include <sluice/result.h>

namespace sluice {

/// Error io, with the path: unreadable, a folder, or more than `most` bytes.
Result<std::string> read_text_file(const std::string& path, std::size_t most);

}  // namespace sluice
