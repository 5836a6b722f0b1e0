// SPDX-License-Identifier: Apache-2.0
// Reads a whole file up to a size limit, because a device or a pipe may have no end.
#pragma once

#include <cstddef>
#include <string>

#include <sluice/result.h>

namespace sluice {

/// Returns the file's text. Error io, with the path: it cannot be read, is a folder, or has more than `most`
/// bytes.
Result<std::string> read_text_file(const std::string& path, std::size_t most);

}  // namespace sluice
