// SPDX-License-Identifier: Apache-2.0
// Reads a whole file that somebody named, up to a bound: a device or a pipe may have no end.
#pragma once

#include <cstddef>
#include <string>

#include <sluice/result.h>

namespace sluice {

/// Error io: it cannot be read, is a folder, or has more than `most` bytes; the path is in the message.
Result<std::string> read_text_file(const std::string& path, std::size_t most);

}  // namespace sluice
